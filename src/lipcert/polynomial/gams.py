"""GAMS scalar models (`.gms`, as MINLPLib and GLOBALLib publish them) whose functions are polynomials.

Read are declarations (Variables; Free, Positive, Negative, Binary Variables; Equations), equations with =E=, =L=, =G=,
bounds and levels (x.lo, x.up, x.fx, x.l), Model and Solve; in expressions +, -, *, / by numbers, ** with whole
exponents, sqr and power. Everything else is refused by its name and line. Nothing is executed, no other file is opened.

The variable that is optimised is replaced by what its equation says where it stands there alone and linearly.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf, isfinite

import numpy as np

from lipcert.errors import FileFormatError, InputError
from lipcert.files.boundary import quoted
from lipcert.polynomial.content import Content, ProblemFile, constant
from lipcert.polynomial.expansion import limited
from lipcert.polynomial.polynomial import Polynomial
from lipcert.polynomial.text import Misread, Reader, Token, tokens_of

MAX_VARIABLES = 20_000
SIGNS = {"e": "=", "l": "<=", "g": ">="}
KINDS = {
    "free": (-inf, inf),
    "positive": (0.0, inf),
    "nonnegative": (0.0, inf),
    "negative": (-inf, 0.0),
    "binary": (0.0, 1.0),
}
HARMLESS = (
    "offlisting",
    "onlisting",
    "offdigit",
    "ondigit",
    "if",
    "ifi",
    "label",
    "set",
    "title",
    "stitle",
    "offupper",
)
_EQUATION = re.compile(r"\s*([A-Za-z]\w*)\s*\.\.(.*)\Z", re.DOTALL | re.ASCII)
_RELATION = re.compile(r"=\s*([A-Za-z])\s*=", re.ASCII)
_ATTRIBUTE = re.compile(r"\s*([A-Za-z]\w*)\s*\.\s*([A-Za-z]+)\s*=(.*)\Z", re.DOTALL | re.ASCII)
_DECLARED = re.compile(r"\s*(?:([A-Za-z]+)\s+)?(variables?|equations?)\b(.*)\Z", re.IGNORECASE | re.DOTALL | re.ASCII)
_SOLVE = re.compile(
    r"\s*solve\s+\w+\s+(?:using\s+%?\w+%?\s+)?(minimi[sz]ing|maximi[sz]ing)\s+(\w+)(?:\s+using\s+%?\w+%?)?\s*\Z",
    re.IGNORECASE | re.ASCII,
)
_NUMBER = re.compile(r"\s*[+-]?\s*(?:(?:\d+\.?\d*|\.\d+)(?:[eEdD][+-]?\d+)?|inf|eps)\s*\Z", re.IGNORECASE | re.ASCII)


@limited()
def read_gams(text: str) -> ProblemFile:
    """A problem from the text of a GAMS scalar model."""
    model = _Model()
    for line, statement in _statements(text):
        if model.goal is not None:  # what comes after the solve statement reports on it
            break
        try:
            _statement(statement, line, model)
        except Misread:
            raise
        except InputError as error:
            raise FileFormatError(f"line {line}: {error}") from None
    return _problem(model)


@dataclass
class _Equation:
    name: str
    sign: str
    left: Polynomial
    right: Polynomial


@dataclass
class _Model:
    """What the statements said; names of GAMS do not depend on case."""

    names: dict[str, str] = field(default_factory=dict)  # as they were written first, by folded name
    places: dict[str, int] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    bounds: dict[str, dict[str, float]] = field(default_factory=dict)
    declared: set[str] = field(default_factory=set)
    equations: list[_Equation] = field(default_factory=list)
    goal: tuple[str, str] | None = None


def _statements(text: str) -> list[tuple[int, str]]:
    """Statements with the line that each begins in: comments and harmless directives are left out, ; ends one."""
    kept: list[str] = []
    hidden = False
    for number, line in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        word = line[1:].split(maxsplit=1)[0].lower() if line.startswith("$") and line[1:].strip() else ""
        if line.startswith("$") and not hidden and word not in (*HARMLESS, "ontext"):
            raise FileFormatError(f"line {number}: the directive {quoted(line.strip())} is not read")
        hidden = (hidden or word == "ontext") and word != "offtext"
        kept.append("" if hidden or line[:1] in ("$", "*") else line)
    found: list[tuple[int, str]] = []
    line_number = 1
    for piece in "\n".join(kept).split(";"):
        lead = len(piece) - len(piece.lstrip())
        if piece.strip():
            found.append((line_number + piece[:lead].count("\n"), piece[lead:]))
        line_number += piece.count("\n")
    return found


def _statement(text: str, line: int, model: _Model) -> None:
    word = re.split(r"\W", text.lower(), maxsplit=1)[0]
    if match := _EQUATION.match(text):
        _equation(match, text, line, model)
    elif match := _ATTRIBUTE.match(text):
        _attribute(match[1].lower(), match[2].lower(), match[3], model)
    elif match := _DECLARED.match(text):
        _declare((match[1] or "free").lower(), match[2].lower(), match[3], model)
    elif match := _SOLVE.match(text):
        model.goal = match[2].lower(), match[1].lower()[:3]
    elif word not in ("model", "option", "options", "display"):
        raise InputError(f"the statement {quoted(' '.join(text.split()))} is not read")


def _declare(kind: str, what: str, rest: str, model: _Model) -> None:
    words = [w for w in re.split(r"[,\s]+", rest) if w]
    wrong = [w for w in words if not re.fullmatch(r"[A-Za-z]\w*", w, re.ASCII)]
    if wrong:
        raise InputError(f"{quoted(wrong[0])} is no name; scalar models list names alone")
    if what.startswith("equation"):
        model.declared |= {w.lower() for w in words}
        return
    if kind not in KINDS:
        raise InputError(f"{quoted(kind)} variables are not read; {', '.join(KINDS)} are")
    for word in words:
        model.names.setdefault(word.lower(), word)
        model.places.setdefault(word.lower(), len(model.places))
        if kind != "free":
            model.kinds[word.lower()] = kind
    if len(model.names) > MAX_VARIABLES:
        raise InputError(f"more than {MAX_VARIABLES} variables")


def _equation(match: re.Match[str], text: str, line: int, model: _Model) -> None:
    if match[1].lower() not in model.declared:
        raise InputError(f"the equation {quoted(match[1])} is not declared")
    relations = list(_RELATION.finditer(match[2]))
    if len(relations) != 1 or relations[0][1].lower() not in SIGNS:
        raise InputError(f"the equation {quoted(match[1])} needs one of =E=, =L=, =G=")
    at, after = match.start(2) + relations[0].start(), match.start(2) + relations[0].end()
    left = _expression(" " * match.start(2) + text[match.start(2) : at], line, model.places)
    newlines = "\n" * text[:after].count("\n")
    blank = " " * (after - (text.rfind("\n", 0, after) + 1))
    right = _expression(newlines + blank + text[after:], line, model.places)
    model.equations.append(_Equation(match[1], SIGNS[relations[0][1].lower()], left, right))


def _expression(text: str, line: int, places: dict[str, int]) -> Polynomial:
    tokens = [Token(t.kind, t.text, t.line + line - 1, t.column) for t in tokens_of(text) if t.kind != "line"]
    reader = Reader(tokens, places, gams=True)
    result = reader.expression()
    if reader.token.kind != "end":
        raise reader.unexpected()
    return result


def _attribute(name: str, attribute: str, value: str, model: _Model) -> None:
    """x.lo = 1 and the like; attributes of the model, marginals, scales and priorities change no answer."""
    if name not in model.names:
        if attribute in ("lo", "up", "fx", "l"):
            raise InputError(f"unknown variable {quoted(name)}")
        return
    if attribute in ("m", "scale", "prior"):
        return
    if attribute not in ("lo", "up", "fx", "l"):
        raise InputError(f"the attribute {quoted('.' + attribute)} is not read; .lo, .up, .fx and .l are")
    if not _NUMBER.match(value):
        raise InputError(f"{name}.{attribute}: {quoted(value.strip())} is no number")
    plain = re.sub(r"\s", "", value.lower()).replace("d", "e").replace("eps", "0")
    model.bounds.setdefault(name, {})[attribute] = float(plain)


def _problem(model: _Model) -> ProblemFile:
    if model.goal is None and "objvar" not in model.names:
        raise FileFormatError("no solve statement: 'Solve m using NLP minimizing objvar;' says what is optimised")
    goal, sense = model.goal or ("objvar", "min")  # as SparsePOP reads a file without one
    if goal not in model.names:
        raise FileFormatError(f"the solve statement optimises {quoted(goal)}, which is no variable")
    missing = model.declared - {e.name.lower() for e in model.equations}
    if missing:
        raise FileFormatError(f"the equation {quoted(min(missing))} is declared and not there")
    place = list(model.names).index(goal)
    objective, used, notes = _eliminated(model, place, sense)
    keep = [i for i in range(len(model.names)) if i != place or used is None]
    table = np.full(len(model.names) + 1, -1, dtype=np.int32)  # its last entry is that of -1
    table[keep] = np.arange(len(keep))
    folded = list(model.names)
    content = Content([model.names[folded[i]] for i in keep])

    def renamed(p: Polynomial) -> Polynomial:
        return Polynomial(table[p.indices], p.coefficients)

    content.objective(renamed(objective), sense)
    for k, i in enumerate(keep):
        _bounds(folded[i], k, model, content)
    for equation in model.equations:
        if equation is not used:
            try:
                content.relation(renamed(equation.left), equation.sign, renamed(equation.right))
            except InputError as error:
                raise FileFormatError(f"equation {equation.name}: {error}") from None
    if used is not None:
        _bound_goal(goal, renamed(objective), model, content)
    levels = np.array([model.bounds.get(folded[i], {}).get("l", 0.0) for i in keep])
    some = any("l" in b for b in model.bounds.values())
    return content.finish(levels if some and np.all(np.isfinite(levels)) else None, notes)


def _eliminated(model: _Model, place: int, sense: str) -> tuple[Polynomial, _Equation | None, tuple[str, ...]]:
    """The objective in the other variables, and the equation that said so; or the variable as it is."""
    home = [e for e in model.equations if place in e.left.variables or place in e.right.variables]
    if len(home) == 1:
        difference = home[0].left - home[0].right
        lead = difference.coefficient((place,))
        touched = (difference.indices == place).any(axis=1)
        rest = Polynomial(difference.indices[~touched], difference.coefficients[~touched])
        if touched.sum() == 1 and lead and _fits(home[0].sign, lead, sense):
            image = -rest / lead
            if all(Fraction(float(q)) * Fraction(lead) == -Fraction(float(r)) for q, r in _pairs(image, rest)):
                name = list(model.names.values())[place]
                return image, home[0], (f"{name} was replaced by what {home[0].name} says it is",)
    return Polynomial.variable(place), None, ()


def _fits(sign: str, lead: float, sense: str) -> bool:
    """Whether the optimum has equality: lead t + rest (sign) 0 must bound t from the side that it is pushed to."""
    below = (sign == ">=") == (lead > 0)  # the relation says t >= ...
    return sign == "=" or below == (sense == "min")


def _pairs(p: Polynomial, q: Polynomial) -> list[tuple[float, float]]:
    same = p.indices.shape == q.indices.shape
    return list(zip(p.coefficients.tolist(), q.coefficients.tolist(), strict=True)) if same else [(1.0, 0.0)]


def _bounds(name: str, k: int, model: _Model, content: Content) -> None:
    given = model.bounds.get(name, {})
    low, high = KINDS[model.kinds.get(name, "free")]
    if "fx" in given:
        low = high = given["fx"]
        content.equalities.append(Polynomial.variable(k) - low)
    try:
        content.bound(k, given.get("lo", low), given.get("up", high))
    except InputError as error:
        raise FileFormatError(str(error)) from None
    if model.kinds.get(name) == "binary" and "fx" not in given:
        content.equalities.append(Polynomial.from_terms({(k, k): 1.0, (k,): -1.0}))


def _bound_goal(name: str, objective: Polynomial, model: _Model, content: Content) -> None:
    """Bounds of the variable that was replaced hold for what replaced it."""
    given = model.bounds.get(name, {})
    low, high = KINDS[model.kinds.get(name, "free")]
    low, high = (given.get("fx", given.get("lo", low)), given.get("fx", given.get("up", high)))
    for value, sign in ((low, ">="), (high, "<=")):
        if isfinite(value) and (objective.degree or constant(objective) != value):
            content.relation(objective, sign, Polynomial.constant(value))
