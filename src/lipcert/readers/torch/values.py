"""Converters of arguments of torch: constants as numpy arrays, sizes, switches; and `call`, which applies them.

Nothing here needs torch: a look-alike made of numpy arrays is a parameter, too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import InputError, UnsupportedOperator
from lipcert.readers.graph.recognised import Condition
from lipcert.readers.graph.tensors import Tensor, constant_tensor
from lipcert.rounding import Array

Converter = Callable[[Any, str], Any]  # takes an argument and its name


@dataclass(frozen=True)
class Unread:
    """A result that is there but must not be used, such as the indices of a maximum."""

    why: str


def call(function: Callable[..., Any], **parameters: Any) -> Callable[..., Any]:
    """A function of torch by an operation on tensors: apply(graph, input, ..) = function(graph, x, ..).

    parameters: torch's own names and order. Each is given as torch's default, whose type says what the argument must
        be (a number, a whole number, a switch or text), or as a converter (value, name) where the argument must be
        given, or as a pair (converter, default). `spread` takes all further arguments, too. Without `input` the first
        argument is called so and becomes a tensor.
    """
    converters: dict[str, Converter] = {}
    declared = [inspect.Parameter("graph", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    for name, given in ({"input": tensor} | parameters).items():
        pair = given if isinstance(given, tuple) else (given, inspect.Parameter.empty)
        converters[name], default = pair if callable(pair[0]) else (_CONVERTERS[type(given)], given)
        declared.append(inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default))
    if spread in parameters.values():
        declared.append(inspect.Parameter("more", inspect.Parameter.VAR_POSITIONAL))
    signature = inspect.Signature(declared)

    def apply(*args: Any, **named: Any) -> Any:
        bound = signature.bind(*args, **named)
        bound.apply_defaults()
        if more := bound.arguments.get("more"):
            first = next(name for name, given in parameters.items() if given is spread)
            bound.arguments[first] = (bound.arguments[first], *more)
        values = [convert(bound.arguments[name], name) for name, convert in converters.items()]
        return function(bound.arguments["graph"], *values)

    apply.__signature__ = signature  # type: ignore[attr-defined]
    return apply


def is_live(value: Any) -> bool:
    """Whether a value, or one inside it, is a tensor of the network."""
    if isinstance(value, (tuple, list)):
        return any(map(is_live, value))
    return isinstance(value, (Tensor, Condition))


def constant(value: Any, what: str) -> Any:
    """A copy of a parameter or a buffer, in double precision where it is of real numbers."""
    if hasattr(value, "detach"):
        if getattr(value, "is_quantized", False) or _is_complex(value):
            raise UnsupportedOperator(f"its {what} is not of a real floating point type")
        value = value.detach()
        return value.cpu().double() if value.is_floating_point() else value.cpu().clone()
    return np.array(value)


def numbers(value: Any, what: str) -> NDArray[Any]:
    """A constant as a numpy array of its own type."""
    if is_live(value):
        raise UnsupportedOperator(f"its {what} depends on the input; a constant is needed")
    if isinstance(value, Unread):
        raise UnsupportedOperator(value.why)
    if hasattr(value, "detach"):
        value = constant(value, what).numpy()
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise UnsupportedOperator(f"its {what} is not made of real numbers")
    return array


def real(value: Any, what: str) -> Array:
    """A constant as float64; whole numbers too, where a double holds them exactly."""
    array = numbers(value, what)
    if array.dtype.kind in "iu" and array.size and np.abs(array.astype(np.float64)).max() > 2.0**53:
        raise UnsupportedOperator(f"its {what} holds whole numbers beyond 2^53")
    return array.astype(np.float64)


def parameter(value: Any, what: str) -> Array:
    """The numbers of a layer's parameter, in float64: they must be of a floating point type."""
    if value is None:
        raise InputError(f"it has no {what}")
    if hasattr(value, "detach"):
        if not value.is_floating_point():
            raise InputError(f"its {what} is not of a real floating point type")
        value = value.detach().cpu().double().numpy()
    return np.array(value, dtype=np.float64)


def optional(value: Any, what: str) -> Array | None:
    """A parameter that may be absent."""
    return None if value is None else real(value, what)


def number(value: Any, what: str) -> float:
    """A constant that is one number."""
    array = real(value, what)
    if array.size != 1:
        raise UnsupportedOperator(f"its {what} has {array.size} entries; one number is needed")
    return float(array.reshape(-1)[0])


def whole(value: Any, what: str) -> int:
    """A constant that is one whole number."""
    found = number(value, what)
    if found != int(found):
        raise InputError(f"its {what} is {found}, not a whole number")
    return int(found)


def wholes(value: Any, what: str) -> tuple[int, ...]:
    """One whole number or several."""
    if isinstance(value, (tuple, list)):
        return tuple(whole(n, what) for n in value)
    array = numbers(value, what).reshape(-1)
    return tuple(whole(n, what) for n in array.tolist())


def sizes(value: Any, axes: int) -> tuple[int, ...]:
    """One number for all axes, or one per axis."""
    found = wholes(value, "size")
    if len(found) == 1:
        found *= axes
    if axes < 1 or len(found) != axes:
        raise InputError(f"{value!r} does not give a size for each of {axes} axes")
    return found


def spread(value: Any, what: str) -> tuple[int, ...]:
    """The sizes of x.view(2, 3) and of x.view((2, 3)) alike."""
    return wholes(value, what)


def optional_whole(value: Any, what: str) -> int | None:
    """A whole number that may be absent."""
    return None if value is None else whole(value, what)


def axes_of(x: Tensor | NDArray[Any], dim: Any) -> tuple[int, ...]:
    """Axes counted from the front; all of them where none is named."""
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return tuple(range(len(x.shape)))
    rank = len(x.shape)
    found = wholes(dim, "dim")
    if any(not -rank <= axis < rank for axis in found):
        raise InputError(f"a tensor of shape {x.shape} has no axis {next(a for a in found if not -rank <= a < rank)}")
    found = tuple(axis % rank for axis in found)
    if len(set(found)) != len(found):
        raise InputError(f"its dim {dim} names an axis twice")
    return found


def tensor(value: Any, what: str = "operand") -> Tensor:
    """A tensor, of a constant too."""
    if isinstance(value, Condition):
        raise UnsupportedOperator(f"its {what} is a comparison; only torch.where and products read those")
    return value if isinstance(value, Tensor) else constant_tensor(real(value, what))


def operand(value: Any, what: str) -> Tensor | Array | Condition:
    """A tensor or a comparison of the network, or the numbers of a constant."""
    return value if isinstance(value, (Tensor, Condition)) else real(value, what)


def flag(value: Any, what: str) -> bool:
    """A switch, which must be a constant."""
    if value is None or is_live(value):
        raise UnsupportedOperator(f"its {what} must be True or False")
    return bool(value)


def as_given(value: Any, what: str) -> Any:  # noqa: ARG001 - converters have the same signature
    """An argument that the operation looks at itself."""
    return value


def text(value: Any, what: str) -> str:
    """A word, such as a mode."""
    if not isinstance(value, str):
        raise UnsupportedOperator(f"its {what} must be text")
    return value


def _is_complex(value: Any) -> bool:
    return bool(value.is_complex()) if hasattr(value, "is_complex") else False


_CONVERTERS: dict[type, Converter] = {float: number, int: whole, bool: flag, str: text}
