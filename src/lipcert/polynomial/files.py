"""Files with polynomial problems: the ending of the name selects the reader; this module reads JSON and BoxQP itself.

.pop    the text language (lipcert.polynomial.language)
.json   {"variables": ["x", ...], "minimize": "...", "constraints": ["x^2 + y^2 <= 1", ...], "bounds": {"x": [-1, 1]},
        "cliques": [["x", "y"], ...], "bad": ["x + y + z = 1"]}; null in a bound means infinite
.gms    GAMS scalar models with polynomials (lipcert.polynomial.gams)
.in     box-constrained quadratic programs (BoxQP, the "spar" instances) as text:  n,  then c,  then Q row by row

    max  1/2 x'Qx + c'x    s.t.   0 <= x <= 1                                        [VN05, BV09]

The sense and the factor are those of the README that comes with the instances (github.com/sburer/BoxQP_instances).

[VN05] Vandenbussche, Nemhauser: A branch-and-cut algorithm for nonconvex quadratic programs with box constraints,
Mathematical Programming 102, 2005. [BV09] Burer, Vandenbussche: Globally solving box-constrained nonconvex quadratic
programs with semidefinite-based finite branch-and-bound, Computational Optimization and Applications 43, 2009.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from math import inf, isfinite
from typing import Any

import numpy as np

from lipcert.errors import FileFormatError, InputError
from lipcert.files import check_readable, text_of
from lipcert.files.boundary import located, quoted
from lipcert.files.tables import is_number
from lipcert.polynomial.content import Content, ProblemFile
from lipcert.polynomial.gams import read_gams
from lipcert.polynomial.language import MAX_VARIABLES, read_pop, read_relation
from lipcert.polynomial.polynomial import Polynomial, limited
from lipcert.polynomial.text import NAME, Misread, parse
from lipcert.rounding import Array

MAX_SIZE = 1000


@limited()
def read_boxqp(text: str) -> ProblemFile:
    """A problem from the text of a BoxQP instance."""
    words = text.split()
    if not words or not (words[0].isascii() and words[0].isdigit()) or len(words[0]) > 9 or not int(words[0]):
        raise FileFormatError("a BoxQP file begins with the number of variables")
    n = int(words[0])
    if n > MAX_SIZE:
        raise FileFormatError(f"{n} variables are more than the limit of {MAX_SIZE} for a BoxQP file")
    if len(words) != 1 + n + n * n:
        raise FileFormatError(
            f"{n} variables need {n} linear and {n * n} quadratic coefficients; found {len(words) - 1}"
        )
    numbers = _numbers(words[1:])
    c, Q = numbers[:n], numbers[n:].reshape(n, n)
    content = Content([f"x{i + 1}" for i in range(n)])
    content.objective(_objective(c, Q), "max")
    for i in range(n):
        content.bound(i, 0.0, 1.0)
    return content.finish(notes=("a BoxQP instance: max 1/2 x'Qx + c'x over the unit box",))


def _objective(c: Array, Q: Array) -> Polynomial:
    i, j = np.triu_indices(len(c))
    values = np.where(i == j, Q[i, j] / 2, (Q[i, j] + Q[j, i]) / 2)
    linear = np.stack([np.full(len(c), -1), np.arange(len(c))], axis=1)
    rows = np.concatenate([linear, np.stack([i, j], axis=1)]).astype(np.int32)
    return Polynomial(rows, np.concatenate([c, values]))


def _numbers(words: list[str]) -> Array:
    try:
        values = np.array(words, dtype=np.float64)
    except ValueError:
        wrong = next(w for w in words if not is_number(w))
        raise FileFormatError(f"{quoted(wrong)} is no number") from None
    if not np.all(np.isfinite(values)) or np.abs(values).max(initial=0.0) > 1e100:
        raise FileFormatError("coefficients must be finite numbers up to 1e100")
    return values


MAX_BYTES = 1 << 26
_NAME = re.compile(rf"{NAME}\Z", re.ASCII)


def load_problem(path: str | os.PathLike[str]) -> ProblemFile:
    """Read a `.pop`, `.json`, `.gms` or `.in` file."""
    p = check_readable(path)
    if p.stat().st_size > MAX_BYTES:
        raise FileFormatError(f"{p}: larger than the limit of {MAX_BYTES >> 20} MiB for a polynomial problem")
    with located(p):
        try:
            text = text_of(p, "utf-8-sig")
        except UnicodeDecodeError:
            raise FileFormatError("not a text file in UTF-8") from None
    try:
        with located(p):
            try:
                return READERS.get(p.suffix.lower(), read_pop)(text)
            except Misread as error:
                raise _Placed(error) from None
    except _Placed as placed:
        raise FileFormatError(f"{p}, {placed.args[0]}") from None


class _Placed(Exception):  # noqa: N818 - never leaves this file
    """Carries a `Misread` past `located`, so that the message can say "file, line 3" instead of "file: line 3"."""


@limited()
def read_json(text: str) -> ProblemFile:
    """A problem from the JSON format."""
    try:
        data = json.loads(text, object_pairs_hook=_unique)
    except FileFormatError:
        raise
    except (ValueError, RecursionError):
        raise FileFormatError("not valid JSON") from None
    known = {"variables", "minimize", "maximize", "constraints", "bounds", "cliques", "bad"}
    if not isinstance(data, dict) or set(data) - known:
        raise FileFormatError(f"expected a JSON object with keys among {', '.join(sorted(known))}")
    content = Content(_names(_strings(data.get("variables"), "variables")))
    for key in ("minimize", "maximize"):
        if key in data:
            content.objective(parse(_strings([data[key]], key)[0], content.places), key[:3])
    for key in ("constraints", "bad"):
        for k, constraint in enumerate(_strings(data.get(key, []), key)):
            try:
                read_relation(constraint, content, key == "bad")
            except Misread as error:
                raise FileFormatError(f"{key}[{k}], column {error.column}: {error.what}") from None
    bounds = data.get("bounds", {})
    if not isinstance(bounds, dict):
        raise FileFormatError("bounds must be an object: name -> [lower, upper]")
    for name, pair in bounds.items():
        content.bound(content.place(name), *_pair(name, pair))
    cliques = data.get("cliques", [])
    if not isinstance(cliques, list):
        raise FileFormatError("cliques must be a list of lists of names")
    for clique in cliques:
        content.clique(_strings(clique, "cliques"))
    return content.finish()


READERS: dict[str, Callable[[str], ProblemFile]] = {
    ".pop": read_pop,
    ".json": read_json,
    ".gms": read_gams,
    ".in": read_boxqp,
}


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The members of a JSON object, none of them given twice."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise FileFormatError(f"the key {quoted(name)} is given twice")
        found[name] = value
    return found


def _names(words: Sequence[str]) -> list[str]:
    if len(words) > MAX_VARIABLES:
        raise InputError(f"more variables than the limit of {MAX_VARIABLES:,}")
    seen: set[str] = set()
    for word in words:
        if not _NAME.match(word):
            raise InputError(f"{quoted(word)} is no name of a variable: letters, digits and _ are")
        if word in seen:
            raise InputError(f"variable {quoted(word)} is declared twice")
        seen.add(word)
    return list(words)


def _strings(value: Any, key: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise FileFormatError(f"{key} must be text")
    return value


def _pair(name: str, pair: Any) -> tuple[float, float]:
    message = f"the bound of {quoted(name)} must be [lower, upper], numbers or null"
    if not isinstance(pair, list) or len(pair) != 2:
        raise FileFormatError(message)
    if not all(v is None or (isinstance(v, int | float) and not isinstance(v, bool)) for v in pair):
        raise FileFormatError(message)
    try:
        lower, upper = (None if v is None else float(v) for v in pair)
    except OverflowError:
        raise FileFormatError(message) from None
    if any(v is not None and not isfinite(v) for v in (lower, upper)):
        raise FileFormatError(message)
    return -inf if lower is None else lower, inf if upper is None else upper
