"""Print the reference of all public names, made from signatures and docstrings; `make docs` has it as a page.

python -m scripts.api_reference
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterator
from enum import Enum
from typing import Any

import lipcert

WIDTH = 100

GROUPS: dict[str, tuple[str, ...]] = {
    "Networks": ("load", "from_torch", "Network", "Affine", "Activation"),
    "Regions": ("Box", "Ball", "Polytope", "Everywhere"),
    "Bounds": ("bound", "METHODS", "Result", "Status", "Progress", "bound_union", "UnionResult"),
    "Norms of layers": ("layer_norms", "LayerNorms"),
    "Constants on cells": ("partition", "cells", "Partition"),
    "Jacobians": ("jacobian", "Jacobian"),
    "Certificates": ("verify", "Certificate", "Verification", "verify_union", "UnionVerification"),
    "Closed loops": ("closed_loop", "contraction", "loop_weights", "largest_box", "LargestBox"),
    "Data sets": ("certify", "Certification", "verify_folder", "FolderVerification", "read_data", "DataSet"),
    "Polynomial problems": (
        "minimize",
        "maximize",
        "plan",
        "Plan",
        "Polynomial",
        "PolynomialProblem",
        "PolynomialResult",
        "PolynomialCertificate",
        "verify_polynomial",
    ),
    "Errors": (
        "LipcertError",
        "InputError",
        "FileFormatError",
        "UnsupportedOperator",
        "MethodError",
        "SoundnessError",
    ),
    "Version": ("__version__",),
}

HEAD = """# API reference

Every public name of `lipcert`, with its signature and its docstring. Names that are not here may change without notice.
"""

ARGUMENT = re.compile(r"^([a-z_*]+(?:, [a-z_*]+)*): (.*)", re.DOTALL)


def reference() -> str:
    """The whole page, in Markdown."""
    missing = set(lipcert.__all__) - {name for names in GROUPS.values() for name in names}
    if missing:
        raise SystemExit(f"scripts/api_reference.py: put {', '.join(sorted(missing))} into a group")
    parts = [HEAD]
    for group, names in GROUPS.items():
        links = " · ".join(f"[`{name}`](#{_anchor(name)})" for name in names)
        parts.append(f"## {group}\n\n{links}\n")
        parts += ["\n".join(_entry(name, getattr(lipcert, name))) for name in names]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).rstrip() + "\n"


def _anchor(name: str) -> str:
    return name.lower()


def _entry(name: str, value: Any) -> Iterator[str]:
    yield f"### `{name}`\n"
    own = getattr(value, "__name__", name)
    if own != name and getattr(lipcert, own, None) is value:
        yield f"Another name of [`{own}`](#{_anchor(own)}).\n"
    elif inspect.isclass(value):
        yield from _class(name, value)
    elif callable(value):
        yield from _code(_signature(name, value))
        yield _markdown(inspect.getdoc(value) or "")
    elif name == "__version__":
        yield "The version, as a string.\n"
    else:
        yield f"{_constant(value)}\n"


def _constant(value: Any) -> str:
    return "The names that `bound` takes as `method`: " + ", ".join(f"`{entry}`" for entry in value) + "."


def _class(name: str, value: type) -> Iterator[str]:
    if issubclass(value, Enum):
        yield _markdown(inspect.getdoc(value) or "")
        yield "\n".join(f"- `{name}.{member.name}`: {member.value}" for member in value) + "\n"
        return
    if issubclass(value, Exception):
        bases = ", ".join(f"`{base.__name__}`" for base in value.__bases__)
        yield f"*Exception, a kind of {bases}.*\n"
    else:
        yield from _code(_signature(name, value))
    yield _markdown(inspect.getdoc(value) or "")
    yield from _members(name, value)


def _members(name: str, value: type) -> Iterator[str]:
    """Public methods and properties that the class itself defines, in the order of the source."""
    fields = {field.name for field in dataclasses.fields(value)} if dataclasses.is_dataclass(value) else set()
    lines = []
    for key, member in vars(value).items():
        if key.startswith("_") or key in fields or not (text := _member(name, key, member)):
            continue
        lines.append(text)
    if lines:
        yield "\n".join(lines) + "\n"


def _member(name: str, key: str, member: Any) -> str:
    if isinstance(member, property) or hasattr(member, "attrname"):  # cached_property
        function = member.fget if isinstance(member, property) else member.func
        kind, text = f"{key}: {function.__annotations__.get('return', '')}", inspect.getdoc(function)
    elif isinstance(member, staticmethod | classmethod) or inspect.isfunction(member):
        function = member.__func__ if isinstance(member, staticmethod | classmethod) else member
        bound = not isinstance(member, staticmethod)
        prefix = f"{name}." if isinstance(member, staticmethod | classmethod) else ""
        kind, text = prefix + _short(key, function, bound), inspect.getdoc(function)
    else:
        return ""
    words = " ".join((text or "").split())
    return f"- `{kind}`" + (f": {words}" if words else "")


def _short(key: str, function: Any, bound: bool) -> str:
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())[1 if bound else 0 :]
    return _line(key, signature.replace(parameters=parameters))


def _signature(name: str, value: Any) -> str:
    signature = inspect.signature(value)
    if inspect.isclass(value):
        signature = signature.replace(return_annotation=inspect.Signature.empty)
    line = _line(name, signature)
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {part}," for part in _parameters(signature)), f"){_end(signature)}"])


def _line(name: str, signature: inspect.Signature) -> str:
    return f"{name}({', '.join(_parameters(signature))}){_end(signature)}"


def _end(signature: inspect.Signature) -> str:
    return "" if signature.return_annotation is signature.empty else f" -> {signature.return_annotation}"


def _parameters(signature: inspect.Signature) -> Iterator[str]:
    """Annotations are strings here, as they are written in the source."""
    star = False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            yield "*"
            star = True
        annotation = "" if parameter.annotation is parameter.empty else f": {parameter.annotation}"
        default = "" if parameter.default is parameter.empty else f" = {_default(parameter.default)}"
        yield f"{parameter.name}{annotation}{default}"


def _default(value: Any) -> str:
    """As in the source; factories of dataclasses have no readable default."""
    text = repr(value)
    return "..." if text.startswith("<") else text


def _code(text: str) -> Iterator[str]:
    yield f"```python\n{text}\n```\n"


def _markdown(text: str) -> str:
    """Paragraphs as they are, indented formulas as code, "Args:" as a list."""
    parts = []
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        if block.startswith(("Args:", "Returns:")) and "\n" in block:
            head, body = block.split("\n", 1)
            parts.append(f"{head}\n\n{_list(textwrap.dedent(body))}")
        elif all(line.startswith("    ") for line in block.splitlines()):
            parts.append(f"```\n{textwrap.dedent(block)}\n```")
        elif ARGUMENT.match(block) and "\n    " in block:
            parts.append(_list(block))
        else:
            parts.append(block)
    return "\n\n".join(parts) + "\n"


def _list(body: str) -> str:
    """`name: words` with deeper lines behind it becomes one item."""
    items: list[str] = []
    for line in body.splitlines():
        if line.startswith(" ") and items:
            items[-1] += " " + line.strip()
        else:
            items.append(line)
    return "\n".join(re.sub(ARGUMENT, r"- `\1`: \2", item) for item in items)


if __name__ == "__main__":
    print(reference(), end="")
