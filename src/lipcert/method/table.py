"""All methods, in the order in which they are listed to users."""

from __future__ import annotations

from lipcert.errors import MethodError
from lipcert.method.auto import Auto, Exact
from lipcert.method.base import Method
from lipcert.method.cheap import Elimination, Interval, Linear, Mixed, Product
from lipcert.method.literal import LITERAL, Literal
from lipcert.method.relaxed import RELAXED
from lipcert.method.slopes import Slopes
from lipcert.method.tight import Tight

METHODS: tuple[Method, ...] = (
    Auto(),
    Product(),
    Interval(),
    Linear(),
    Mixed(),
    Elimination(),
    Slopes(),
    *RELAXED,
    Tight(),
    Exact(),
    *(method for method in LITERAL if method.only),
)

# Methods of earlier versions, and where their users find them now.
_MOVED = {"mip": "a mixed-integer solver proves nothing; its program is benchmarks/mixed_integer.py of the source"}


def names() -> tuple[str, ...]:
    """The names of all methods, as users write them."""
    return tuple(method.name for method in METHODS)


def named(name: str, literal: bool = False) -> Method:
    """The method of this name, in any case; `literal` asks for the form that the paper states, where there is one."""
    name = name.lower() if isinstance(name, str) else name
    if name not in names():
        moved = f" ({_MOVED[name]})" if name in _MOVED else ""
        raise MethodError(f"unknown method {name!r}{moved}; use one of {', '.join(names())}")
    if literal:
        return _literal(name)
    return next(method for method in METHODS if method.name == name)


def _literal(name: str) -> Literal:
    found = next((method for method in LITERAL if method.name == name), None)
    if found is None:
        known = ", ".join(method.name for method in LITERAL)
        raise MethodError(f"method {name} has no literal form; use one of {known}")
    return found
