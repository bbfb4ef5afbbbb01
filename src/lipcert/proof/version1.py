"""Files of version 1: they do not say what was built, so it is told from the names of their multipliers.

    wide chords      a family with that name
    values           the variables w have a shift
    products         families of products of half-spaces, at a leaf of a tree

This is the only place where anything is guessed; whatever is guessed wrong proves less, or nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import FileFormatError, InputError
from lipcert.files.numbers import LARGEST_WHOLE, real, whole, within
from lipcert.problem.problem import Problem
from lipcert.proof.arithmetic import Arithmetic
from lipcert.proof.cases import Cases, ProvedCase, case_of, case_table
from lipcert.proof.certificate import Proof
from lipcert.proof.encoding import Numbers, check_cuts, decode_numbers, read_cuts
from lipcert.proof.relaxed import Multipliers
from lipcert.proof.tree import METHOD, NO_TREE, assembled, digest, read_kinds
from lipcert.relaxation.build import build
from lipcert.relaxation.cuts import NO_CUTS, Cuts
from lipcert.relaxation.model import Relaxation
from lipcert.relaxation.specification import RELAXATIONS, Specification, form_of
from lipcert.rounding import Array

VERSION = 1
NAMES = (
    r"cuts|reduction|multipliers|shift|(?:multipliers|shift)_\d{1,3}|case_\d{1,4}_(?:head|numbers|cuts)|"
    r"leaf_(?:names|segments|index|numbers|cuts|cut_rows)"
)
TEXTS = frozenset({"multipliers", "shift", "leaf_names"})


@dataclass(frozen=True, eq=False)
class Old:
    """A proof of version 1; which one it is now depends on the network."""

    method: str
    kept: Mapping[str, NDArray[np.generic]]

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """As they were."""
        return {"certificate": np.array(VERSION), **self.kept}

    def check(self, problem: Problem) -> float:
        """What the proof that it is now proves."""
        return self.translated(problem).check(problem)

    def translated(self, problem: Problem) -> Proof:
        """The same proof, with what was built written down."""
        if self.method == METHOD:
            return _tree(self.kept, problem) if "tree" in self.kept else NO_TREE
        if self.method not in RELAXATIONS:
            return Arithmetic(self.method)
        if problem.has_cases:
            return Cases(self.method, tuple(_cases(self, problem)))
        numbers = _named(self.kept, "multipliers"), _named(self.kept, "shift")
        own = _specification(problem, self.method, numbers, _cuts(self.kept, "cuts"), _reduction(self.kept))
        return Multipliers(own, *numbers)


def read_old(arrays: Mapping[str, Any], method: str) -> Old:
    """The proof of a file of version 1; its numbers are looked at now, so that a damaged file is refused at once."""
    names = ("multipliers", "shift", "cuts", "reduction", "tree", "leaf_", "case_")
    kept = {name: arrays[name] for name in arrays if name.startswith(names)}
    for prefix in ("multipliers", "shift"):
        _named(kept, prefix)
    for name in kept:
        if name.startswith("case_") and name.endswith("_head"):
            _head(kept, name)
        elif name.endswith("cuts"):
            _cuts(kept, name)
    _reduction(kept)
    return Old(method, kept)


def _specification(
    problem: Problem, method: str, numbers: Numbers, cuts: Cuts = NO_CUTS, reduction: NDArray[np.int64] | None = None
) -> Specification:
    """What was built for multipliers and shifts with these names."""
    families, blocks = numbers
    if reduction is not None:
        return Specification(method, "backward", values=False, cuts=cuts, reduction=reduction)
    form = form_of(problem, method)
    wide = any(name.endswith("wide chord") or name == "z (z - hi u - lo (1-u)) <= 0" for name in families)
    products = any(name != "half-space" and "half-space" in name for name in families)
    return Specification(method, form, "w" in blocks, wide, method == "tight", None, products, cuts)


def _cases(old: Old, problem: Problem) -> list[ProvedCase]:
    """Of a case only the numbers were kept, in the order of its families and blocks."""
    found: list[ProvedCase] = []
    shape = case_table(problem).shape
    while f"case_{len(found)}_head" in old.kept:
        name = f"case_{len(found)}"
        output, coordinate, wide, values = _head(old.kept, f"{name}_head")
        row, column = max(output, 0), max(coordinate, 0)
        if row >= shape[0] or column >= shape[1]:
            raise InputError(f"{name} is about an output or a coordinate that is not there")
        if any((row, column) == (done.row, done.column) for done in found):
            raise FileFormatError(f"{name} is about an output and a coordinate that another case is about")
        case = case_of(problem, row, column)
        method, cuts = old.method, _cuts(old.kept, f"{name}_cuts")
        own = Specification(method, form_of(case, method), bool(values), bool(wide), method == "tight", cuts=cuts)
        numbers = _unflattened(build(case, own), real(old.kept, f"{name}_numbers", (None,)))
        found.append(ProvedCase(row, column, Multipliers(own, *numbers), np.inf))
    return found


def _unflattened(relaxation: Relaxation, numbers: Array) -> Numbers:
    totals = {f.name: f.total for f in relaxation.families}
    widths = {name: len(v) for name, v in relaxation.spread(np.zeros(relaxation.space.size)).items()}
    lengths = [*totals.values(), *widths.values()]
    if numbers.shape != (sum(lengths),):
        return {"": np.zeros(0)}, {}  # fits no relaxation
    pieces = np.split(numbers, np.cumsum(lengths)[:-1])
    return dict(zip(totals, pieces, strict=False)), dict(zip(widths, pieces[len(totals) :], strict=True))


def _tree(kept: Mapping[str, Any], problem: Problem) -> Proof:
    own = {name: kept[name] for name in kept if name != "tree_digest" and name.startswith(("tree", "leaf_"))}
    try:
        if str(kept["tree_digest"]) != digest(own):
            return NO_TREE
        renamed = {name.removeprefix("leaf_"): array for name, array in own.items()}
        kinds, cuts = read_kinds(own), read_cuts(own, "leaf_cuts")
        rows = whole(own, "leaf_cut_rows", (len(kinds),), 0, len(cuts))
        if rows.sum() != len(cuts):
            return NO_TREE
        numbers = decode_numbers(renamed, len(kinds))
        tables = np.split(cuts, np.cumsum(rows))[:-1]
        for table in tables:
            check_cuts(table)
        specifications = [
            _specification(problem, "tight", both, Cuts(table)) if kind == 2 and not problem.has_cases else None
            for kind, both, table in zip(kinds, numbers, tables, strict=True)
        ]
        return assembled(own, kinds, specifications, numbers)
    except (KeyError, FileFormatError):  # what does not add up is no tree
        return NO_TREE


def _head(kept: Mapping[str, Any], name: str) -> tuple[int, int, int, int]:
    head = whole(kept, name, (4,), -1, LARGEST_WHOLE)
    if not within(head, [-1, -1, 0, 0], [LARGEST_WHOLE, LARGEST_WHOLE, 1, 1]):
        raise FileFormatError(f"{name} must say which output and coordinate it is about")
    output, coordinate, wide, values = (int(v) for v in head)
    return output, coordinate, wide, values


def _cuts(kept: Mapping[str, Any], name: str) -> Cuts:
    if name not in kept:
        return NO_CUTS
    table = read_cuts(kept, name)
    if name != "leaf_cuts":  # of all leaves together, where each may have the same ones
        check_cuts(table)
    return Cuts(table)


def _reduction(kept: Mapping[str, Any]) -> NDArray[np.int64] | None:
    return whole(kept, "reduction", (None,), 0, LARGEST_WHOLE) if "reduction" in kept else None


def _named(kept: Mapping[str, Any], prefix: str, first: str | None = None) -> dict[str, Array]:
    """Vectors by name: `prefix` holds the names, prefix_0, prefix_1, .. the vectors."""
    key = prefix if first is None else first
    if key not in kept or kept[key].ndim != 1 or (kept[key].size and kept[key].dtype.kind != "U"):
        raise FileFormatError(f"{prefix} must be a list of names")
    names = kept[key]
    return {str(name): real(kept, f"{prefix}_{i}", (None,)) for i, name in enumerate(names)}


def margin_numbers(arrays: Mapping[str, Any], count: int) -> list[Numbers]:
    """Multipliers and shifts of the margins of a file of version 1."""
    return [
        (_named(arrays, f"rows_{k}", f"rows_{k}_names"), _named(arrays, f"shift_{k}", f"shift_{k}_names"))
        for k in range(count)
    ]
