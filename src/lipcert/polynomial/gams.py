"""GAMS scalar models (`.gms`, as MINLPLib and GLOBALLib publish them) whose functions are polynomials.

The reader knows declarations (Variables; Free, Positive, Negative, Binary Variables; Equations), equations with =E=,
=L=, =G=, attributes (x.lo, x.up, x.fx, x.l), Model and Solve; in expressions +, -, *, / by numbers, ** with whole
exponents, sqr and power. Everything else is refused by its name and line. Nothing is executed, no other file is opened.

Meaning, as in GAMS: names do not depend on case. The kind of a variable sets its first bounds, and every later
assignment of .lo, .up or .fx replaces the bounds before it. Only the equations of the model that is solved count, and
only the variables in them. Everything after the Solve statement is ignored, but a second Solve statement is refused.

The text is cut into statements: comments are removed, directives are checked, a semicolon ends a statement. A directive
is a line with $ in its first column. Some directives only change the listing; those are skipped. $ontext, $offtext and
the end-of-line comments ($eolcom, $oneolcom, $offeolcom) are obeyed. Every other directive is refused, because it could
change the model.

`problem_of` makes a polynomial problem of the variables and equations. A GAMS model optimises a variable t. Where one
equation alone contains t, linearly and with an exact quotient, t is replaced by the polynomial q that the equation
says. Minimising, for t with bounds l and u:

    t = q(x):    min q(x)                 subject to  l <= q(x) <= u
    t >= q(x):   min max(q(x), l)         subject to  q(x) <= u

so that an inequality replaces t only where l is infinite (u, when maximising). In all other cases t stays a variable.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf, isfinite

import numpy as np

from lipcert.errors import FileFormatError, InputError
from lipcert.files.boundary import quoted
from lipcert.polynomial.content import Content, ProblemFile
from lipcert.polynomial.polynomial import Polynomial, limited
from lipcert.polynomial.text import Misread, Reader, Token, tokens_of

_LISTED = ("listing", "digit", "upper", "symlist", "symxref")  # they change the listing alone
_SWITCHES = frozenset(f"{on}{what}" for on in ("on", "off") for what in _LISTED)
_WITH_TEXT = ("title", "stitle", "label", "set")  # the rest of the line is their argument
# The two conditional lines of the files of MINLPLib: a default for a macro, and a user's file that is not given.
_CONDITION = r"\$ifi?\s+(?:not\s+)?(?:set\s+\w+|(['\"])[^'\"]*\1\s*==\s*(['\"])[^'\"]*\2)\s+"
_CONDITIONAL = re.compile(
    rf"{_CONDITION}\$(?:set\s+\w+\s+\w+|include\s+(['\"]?)%gams\.u1%\3)\s*\Z", re.IGNORECASE | re.ASCII
)
QUOTED = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"")


def statements(text: str) -> list[tuple[int, str]]:
    """Every statement with the number of the line in which it begins."""
    found: list[tuple[int, str]] = []
    line_number = 1
    for piece in "\n".join(_SourceLines().kept(text)).split(";"):
        lead = len(piece) - len(piece.lstrip())
        if piece.strip():
            found.append((line_number + piece[:lead].count("\n"), piece[lead:]))
        line_number += piece.count("\n")
    return found


@dataclass
class _SourceLines:
    """The state of a walk through the lines of a file."""

    number: int = 0
    hidden: int = 0  # the line of the last $ontext while its $offtext has not come, else 0
    mark: str = "!!"  # the characters that begin a comment at the end of a line, where such comments are on
    marked: bool = False

    def kept(self, text: str) -> list[str]:
        """All lines; comments and directives are empty lines, so that line numbers stay."""
        lines = [self.line(line) for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
        if self.hidden:
            raise FileFormatError(f"line {self.hidden}: $ontext has no $offtext")
        return lines

    def line(self, line: str) -> str:
        self.number += 1
        words = line[1:].lower().split() if line.startswith("$") else []
        if self.hidden:
            self.hidden = 0 if words[:1] == ["offtext"] else self.hidden
            return ""
        if line.startswith("$"):
            self.directive(words, line)
            return ""
        if line.startswith("*"):
            return ""
        if not self.marked or self.mark not in line:
            return line
        code = line[: line.index(self.mark)]
        if re.search("['\"]", QUOTED.sub("", code)):
            raise FileFormatError(f"line {self.number}: a comment that begins inside quotes is not read")
        return code

    def directive(self, words: list[str], line: str) -> None:
        word = words[0] if words else ""
        if word == "ontext":
            self.hidden = self.number
        elif word == "eolcom" and len(words) == 2:
            self.mark, self.marked = words[1], True
        elif words in (["oneolcom"], ["offeolcom"]):
            self.marked = word == "oneolcom"
        elif not (word in _WITH_TEXT or _CONDITIONAL.match(line) or (words and _SWITCHES.issuperset(words))):
            raise FileFormatError(f"line {self.number}: the directive {quoted(line.strip())} is not read")


KINDS = {
    "free": (-inf, inf),
    "positive": (0.0, inf),
    "nonnegative": (0.0, inf),
    "negative": (-inf, 0.0),
    "binary": (0.0, 1.0),
}


@dataclass
class Variable:
    """A variable with its bounds so far: the kind sets them first, and the last assignment counts."""

    name: str
    kind: str
    lower: float
    upper: float
    level: float | None = None
    bounded: bool = False  # whether a bound has been assigned

    @staticmethod
    def declared(name: str, kind: str) -> Variable:
        """A new variable; without a kind it is free."""
        return Variable(name, kind or "free", *KINDS[kind or "free"])

    def declare_again(self, kind: str) -> None:
        """Give a variable that was declared without a kind the kind of a later statement."""
        if kind == self.kind or (not kind and self.kind == "free"):
            return
        if self.kind != "free" or self.bounded:
            before = "its bounds were assigned" if self.bounded else f"it was declared {self.kind}"
            raise InputError(f"{quoted(self.name)} is declared again after {before}; declare its kind once, first")
        self.kind, (self.lower, self.upper) = kind, KINDS[kind]

    def assign(self, attribute: str, value: float) -> None:
        """x.lo, x.up, x.fx or x.l = value; x.fx sets all three others."""
        if self.kind == "binary" and attribute in ("lo", "up", "fx") and value not in (0.0, 1.0):
            raise InputError(f"{self.name}.{attribute} = {value:g}: a binary variable has the bounds 0 and 1")
        self.lower = value if attribute in ("lo", "fx") else self.lower
        self.upper = value if attribute in ("up", "fx") else self.upper
        self.level = value if attribute in ("l", "fx") else self.level
        self.bounded = self.bounded or attribute in ("lo", "up", "fx")


@dataclass(frozen=True)
class Equation:
    """left (sign) right; the sign is =, <= or >=."""

    name: str
    sign: str
    left: Polynomial
    right: Polynomial


@dataclass(frozen=True)
class SolveStatement:
    """The solve statement: the variable, min or max, the model, and whether binary variables are relaxed."""

    variable: str
    sense: str
    model: str
    relaxed: bool = False


def problem_of(
    variables: dict[str, Variable], equations: Sequence[Equation], goal: SolveStatement, notes: Sequence[str] = ()
) -> ProblemFile:
    """The problem of one model; the polynomials number the variables in the order of the dictionary."""
    place = list(variables).index(goal.variable)
    listed = list(variables.values())
    present = {int(i) for e in equations for p in (e.left, e.right) for i in p.variables}
    if place not in present:
        raise FileFormatError(f"the variable {quoted(listed[place].name)} is optimised, and no equation contains it")
    objective, used = _replacement(equations, place, listed[place], goal)
    keep = [i for i in sorted(present) if i != place or used is None]
    table = np.full(len(listed) + 1, -1, dtype=np.int32)  # its last entry is that of -1
    table[keep] = np.arange(len(keep))
    content = Content([listed[i].name for i in keep])

    def renamed(p: Polynomial) -> Polynomial:
        return Polynomial(table[p.indices], p.coefficients)

    content.objective(renamed(objective), goal.sense)
    for k, i in enumerate(keep):
        _bound(listed[i], k, goal.relaxed, content)
    for equation in equations:
        if equation is not used:
            _relation(equation.name, renamed(equation.left), equation.sign, renamed(equation.right), content)
    if used is not None:
        name = listed[place].name
        notes = (f"{name} was replaced by what {used.name} says it is", *notes)
        for value, sign in ((listed[place].lower, ">="), (listed[place].upper, "<=")):
            if isfinite(value):
                _relation(f"bound of {name}", renamed(objective), sign, Polynomial.constant(value), content)
    levels = [listed[i].level for i in keep]
    start = np.array([v or 0.0 for v in levels])
    known = any(v is not None for v in levels) and bool(np.all(np.isfinite(start)))
    return content.finish(start if known else None, tuple(notes))


def _replacement(
    equations: Sequence[Equation], place: int, variable: Variable, goal: SolveStatement
) -> tuple[Polynomial, Equation | None]:
    """The objective in the other variables and the equation that says it, or the variable itself and None."""
    itself = Polynomial.variable(place), None
    home = [e for e in equations if place in e.left.variables or place in e.right.variables]
    if len(home) != 1 or (variable.kind == "binary" and not goal.relaxed):
        return itself
    difference = home[0].left - home[0].right
    lead = difference.coefficient((place,))
    touched = (difference.indices == place).any(axis=1)
    rest = Polynomial(difference.indices[~touched], difference.coefficients[~touched])
    if touched.sum() != 1 or not lead or not _tight(home[0].sign, lead, variable, goal.sense):
        return itself
    image = -rest / lead
    if any(Fraction(q) * Fraction(lead) != -Fraction(r) for q, r in _pairs(image, rest)):
        return itself
    return image, home[0]


def _tight(sign: str, lead: float, variable: Variable, sense: str) -> bool:
    """Whether t takes the value of its equation, lead t + rest (sign) 0, at the optimum of every x."""
    if sign == "=":
        return True
    from_below = (sign == ">=") == (lead > 0)  # the relation says t >= ...
    return from_below == (sense == "min") and not isfinite(variable.lower if sense == "min" else variable.upper)


def _pairs(p: Polynomial, q: Polynomial) -> list[tuple[float, float]]:
    """Coefficients of the same monomials, and an impossible pair where a coefficient of p vanished."""
    same = p.indices.shape == q.indices.shape
    return list(zip(p.coefficients.tolist(), q.coefficients.tolist(), strict=True)) if same else [(1.0, 0.0)]


def _bound(variable: Variable, k: int, relaxed: bool, content: Content) -> None:
    low, high = variable.lower, variable.upper
    try:
        content.bound(k, low, high)
    except InputError as error:
        raise FileFormatError(str(error)) from None
    if low == high:
        content.equalities.append(Polynomial.variable(k) - low)
    elif variable.kind == "binary" and not relaxed:
        content.equalities.append(Polynomial.from_terms({(k, k): 1.0, (k,): -1.0}))


def _relation(name: str, left: Polynomial, sign: str, right: Polynomial, content: Content) -> None:
    try:
        content.relation(left, sign, right)
    except InputError as error:
        raise FileFormatError(f"equation {name}: {error}") from None


MAX_VARIABLES = 20_000
LARGEST = 1e299  # GAMS itself has no finite numbers from 1e300 on
SIGNS = {"e": "=", "l": "<=", "g": ">="}
CONTINUOUS = frozenset({"lp", "nlp", "dnlp", "qcp"})
DISCRETE = frozenset({"mip", "minlp", "miqcp"})
RELAXED = frozenset({"rmip", "rminlp", "rmiqcp"})
# GAMS lets a semicolon be left out in front of these words. Such files are refused: the reader would take the words for
# the text behind a name.
KEYWORDS = (
    "variable variables equation equations free positive nonnegative negative binary integer sos1 sos2 semicont "
    "semiint model models solve set sets parameter parameters scalar scalars table alias option options display"
)
_KEYWORDS = frozenset(KEYWORDS.split())
REMEDY = "scalar models are read; GAMS writes a model as one with its solver CONVERT"
_NAME = r"[A-Za-z]\w*"
_EQUATION = re.compile(rf"\s*({_NAME})\s*\.\.(.*)\Z", re.DOTALL | re.ASCII)
_RELATION = re.compile(r"=\s*([A-Za-z])\s*=", re.ASCII)
_ATTRIBUTE = re.compile(rf"\s*({_NAME})\s*\.\s*([A-Za-z]+)\s*=(.*)\Z", re.DOTALL | re.ASCII)
_DECLARED = re.compile(r"\s*(?:([A-Za-z]+)\s+)?(variable|equation)s?\b(.*)\Z", re.IGNORECASE | re.DOTALL | re.ASCII)
_MODELS = re.compile(r"\s*models?\b(.*)\Z", re.IGNORECASE | re.DOTALL | re.ASCII)
_MODEL = re.compile(rf"[\s,]*({_NAME})([^/]*)/([^/]*)/", re.ASCII)
_USING = r"(?:using\s+(%?\w+%?)\s*)?"
_SOLVE = re.compile(
    rf"\s*solve\s+({_NAME})\s+{_USING}(min|max)(?:imi[sz]ing)?\s+({_NAME})\s*{_USING}\Z", re.IGNORECASE | re.ASCII
)
_OPTION = re.compile(
    r"\s*options?\s+(?:(?!clear\b|kill\b)\w+\s*=\s*[\w.+-]+(?:[\s,]+|\Z))+\Z", re.IGNORECASE | re.ASCII
)
_NUMBER = re.compile(r"\s*[+-]?\s*(?:(?:\d+\.?\d*|\.\d+)(?:[eEdD][+-]?\d+)?|inf|eps)\s*\Z", re.IGNORECASE | re.ASCII)
_FORTRAN = re.compile(r"(?<![\w.])(\d+\.?\d*|\.\d+)[dD](?=[+-]?\d)", re.ASCII)  # 1.5D3


@limited()
def read_gams(text: str) -> ProblemFile:
    """A problem from the text of a GAMS scalar model."""
    model = _Model()
    for line, statement in statements(text):
        try:
            if model.goal is None:
                _statement(statement, line, model)
            elif re.search(r"\bsolve\b", QUOTED.sub("", statement), re.IGNORECASE):
                raise InputError("a second solve statement; keep the one that is meant")
        except Misread:
            raise
        except InputError as error:
            raise FileFormatError(f"line {line}: {error}") from None
    goal = model.goal or model.without_solve()
    equations = model.solved(goal)
    others = [e.name for e in model.equations.values() if e is not None and e not in equations]
    few = f"{', '.join(others[:6])}{', ...' if len(others) > 6 else ''}"
    notes = [f"equations outside the model {goal.model} were left out: {few}"] if others else []
    return problem_of(model.variables, equations, goal, notes)


@dataclass
class _Model:
    """The statements that have been read. All keys are names in lower case."""

    variables: dict[str, Variable] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    equations: dict[str, Equation | None] = field(default_factory=dict)  # None: declared, not yet defined
    models: dict[str, list[str]] = field(default_factory=dict)
    complete: str = ""  # a model that was declared with / all /
    goal: SolveStatement | None = None

    def check_new(self, name: str) -> None:
        if name in self.variables or name in self.equations or name in self.models:
            raise InputError(f"the name {quoted(name)} is declared twice")

    def without_solve(self) -> SolveStatement:
        """A file without a solve statement minimises objvar, as the files of SparsePOP do."""
        if "objvar" not in self.variables:
            raise FileFormatError("no solve statement: 'Solve m using NLP minimizing objvar;' says what is optimised")
        if len(self.models) > 1:
            raise FileFormatError(f"no solve statement, and {len(self.models)} models: solve one of them")
        return SolveStatement("objvar", "min", next(iter(self.models), ""))

    def solved(self, goal: SolveStatement) -> list[Equation]:
        """The equations of the model that is solved, in the order of their declaration."""
        listed = set(self.models[goal.model] if goal.model else self.equations)
        chosen: list[Equation] = []
        for name, equation in self.equations.items():
            if name in listed and equation is None:
                raise FileFormatError(f"the equation {quoted(name)} is declared and not there")
            if name in listed and equation is not None:
                chosen.append(equation)
        return chosen


def _statement(text: str, line: int, model: _Model) -> None:
    if re.search("['\"]", QUOTED.sub("", text)):
        raise InputError("a quotation mark without its partner, or a semicolon inside quotes, is not read")
    word = re.split(r"\W", text.lower(), maxsplit=1)[0]
    if match := _EQUATION.match(text):
        _equation(match, text, line, model)
    elif match := _ATTRIBUTE.match(text):
        _attribute(match[1].lower(), match[2].lower(), match[3], model)
    elif match := _DECLARED.match(text):
        _declare((match[1] or "").lower(), match[2].lower(), match[3], model)
    elif match := _MODELS.match(text):
        _models(match[1], model)
    elif match := _SOLVE.match(text):
        _solve(match, model)
    elif word != "display" and not _OPTION.match(text):
        raise InputError(f"the statement {quoted(' '.join(text.split()))} is not read; {REMEDY}")


def _declare(kind: str, what: str, rest: str, model: _Model) -> None:
    """Variables x 'a text', y; Positive Variables x; Equations e1, e2."""
    if kind and (what == "equation" or kind not in KINDS):
        raise InputError(f"{quoted(kind)} {what}s are not read; {', '.join(KINDS)} variables are")
    for name in _names(rest):
        folded = name.lower()
        if what == "equation":
            if model.complete:
                raise InputError(f"an equation is declared after the model {quoted(model.complete)} with / all /")
            model.check_new(folded)
            model.equations[folded] = None
        elif folded not in model.variables:
            model.check_new(folded)
            model.variables[folded] = Variable.declared(name, kind)
            model.places[folded] = len(model.places)
        else:
            model.variables[folded].declare_again(kind)
    if len(model.variables) > MAX_VARIABLES:
        raise InputError(f"more than {MAX_VARIABLES} variables")


def _names(rest: str) -> list[str]:
    """The names of a declaration. Commas and ends of lines separate them; a text may follow each name."""
    found: list[str] = []
    for entry in re.split(r"[,\n]", QUOTED.sub(' "" ', rest)):
        words = entry.split()
        if not words:
            continue
        if '""' in words[:-1]:
            raise InputError(f"a comma is missing between the quoted text of {quoted(words[0])} and the next name")
        if missing := [w for w in words if w.lower() in _KEYWORDS]:
            raise InputError(f"a semicolon is missing before {quoted(missing[0])}, or quotes around a text")
        if not re.fullmatch(_NAME, words[0], re.ASCII) or re.search(r"[/()=]", entry):
            raise InputError(f"{quoted(entry.strip())} is no name; {REMEDY}")
        found.append(words[0])
    return found


def _equation(match: re.Match[str], text: str, line: int, model: _Model) -> None:
    name = match[1].lower()
    if name not in model.equations:
        raise InputError(f"the equation {quoted(match[1])} is not declared")
    if model.equations[name] is not None:
        raise InputError(f"the equation {quoted(match[1])} is defined twice")
    relations = list(_RELATION.finditer(match[2]))
    if len(relations) != 1 or relations[0][1].lower() not in SIGNS:
        raise InputError(f"the equation {quoted(match[1])} needs one of =E=, =L=, =G=")
    at, after = match.start(2) + relations[0].start(), match.start(2) + relations[0].end()
    left = _expression(" " * match.start(2) + text[match.start(2) : at], line, model.places)
    newlines = "\n" * text[:after].count("\n")
    blank = " " * (after - (text.rfind("\n", 0, after) + 1))
    right = _expression(newlines + blank + text[after:], line, model.places)
    model.equations[name] = Equation(match[1], SIGNS[relations[0][1].lower()], left, right)


def _expression(text: str, line: int, places: dict[str, int]) -> Polynomial:
    words = tokens_of(_FORTRAN.sub(r"\1e", text))
    tokens = [Token(t.kind, t.text, t.line + line - 1, t.column) for t in words if t.kind != "line"]
    reader = Reader(tokens, places, gams=True)
    result = reader.expression()
    if reader.token.kind != "end":
        raise reader.unexpected()
    return result


def _attribute(name: str, attribute: str, value: str, model: _Model) -> None:
    """x.lo = 1 and the like; attributes of models, marginals, scales and priorities change no optimum."""
    bounds = attribute in ("lo", "up", "fx")
    if name in model.models or name in model.equations:
        if bounds:
            raise InputError(f"{name}.{attribute}: bounds are read for variables only")
        return
    if name not in model.variables:
        raise InputError(f"unknown variable {quoted(name)}")
    if attribute in ("m", "scale"):
        return
    if attribute not in ("lo", "up", "fx", "l", "prior"):
        raise InputError(f"the attribute {quoted('.' + attribute)} is not read; .lo, .up, .fx and .l are")
    if not _NUMBER.match(value):
        raise InputError(f"{name}.{attribute}: {quoted(value.strip())} is no number")
    number = float(re.sub(r"\s", "", value.lower()).replace("d", "e").replace("eps", "0"))
    endless = {"lo": -inf, "up": inf, "l": number}.get(attribute)
    if not abs(number) <= LARGEST and not (number == endless and "inf" in value.lower()):
        raise InputError(f"{name}.{attribute}: {quoted(value.strip())} is not a number that can stand here")
    model.variables[name].assign(attribute, number)


def _models(text: str, model: _Model) -> None:
    """Model m / all /; Models a / e1, e2 /, b / a, e3 /."""
    at, found = 0, 0
    text = QUOTED.sub(" ", text)
    while match := _MODEL.match(text, at):
        name, words = match[1].lower(), re.split(r"[,\s]+", match[3].strip().strip(","))
        if any(w.lower() in _KEYWORDS for w in match[2].split()):
            raise InputError("a semicolon is missing in the model statement, or quotes around a text")
        model.check_new(name)
        equations: list[str] = []
        for word in (w.lower() for w in words):
            if word != "all" and word not in model.equations and word not in model.models:
                raise InputError(f"{quoted(word)} in the model {quoted(name)} is no equation, and no model before it")
            model.complete = name if word == "all" else model.complete
            equations += list(model.equations) if word == "all" else model.models.get(word, [word])
        model.models[name] = equations
        at, found = match.end(), found + 1
    if text[at:].strip(" \t\n,") or not found:
        raise InputError("a model statement is read as Model m / all / or Model m / e1, e2 /")


def _solve(match: re.Match[str], model: _Model) -> None:
    name, variable = match[1].lower(), match[4].lower()
    kind = (match[2] or match[5] or "%minlp%").lower()
    if name not in model.models:
        raise InputError(f"the solve statement names {quoted(match[1])}, which is no model before it")
    if variable not in model.variables:
        raise InputError(f"the solve statement optimises {quoted(match[4])}, which is no variable")
    if "%" not in kind and kind not in CONTINUOUS | DISCRETE | RELAXED:
        raise InputError(f"models of type {quoted(kind)} are not read")
    goal = SolveStatement(variable, match[3].lower(), name, kind in RELAXED)
    present = {int(i) for e in model.solved(goal) for p in (e.left, e.right) for i in p.variables}
    binary = [v.name for i, v in enumerate(model.variables.values()) if v.kind == "binary" and i in present]
    if kind in CONTINUOUS and binary:
        remedy = "solve it using MINLP, or RMINLP for its relaxation"
        raise InputError(f"a model with binary variables ({quoted(binary[0])}) is no {kind.upper()}; {remedy}")
    model.goal = goal
