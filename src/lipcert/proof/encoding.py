"""How a file keeps proofs by multipliers: one for a relaxation, one for every case, one for every leaf or margin.

specifications   a row for each: form, values, wide, exclusions, products, cuts, entries of its reduction
cuts, reductions the tables of all, one after the other
names            of families of rows and of blocks of variables
segments         a row for each array: proof, multipliers (0) or shift (1), name, length, entries that are not zero
index, numbers   of these entries, all arrays one after the other
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import FileFormatError
from lipcert.files.numbers import LARGEST_WHOLE, real, whole, within
from lipcert.relaxation.cuts import COLUMNS as CUT_COLUMNS
from lipcert.relaxation.cuts import NO_CUTS, Cuts, repeated, valid_table
from lipcert.relaxation.specification import FORMS, Specification
from lipcert.rounding import Array

NAMES = "specifications|cuts|reductions|names|segments|index|numbers"
TEXTS = frozenset({"names"})
MOST_PROOFS = 1 << 21  # in one file: the leaves of a tree
MOST_CUTS = 1 << 20  # cuts of one proof
MOST_NUMBERS = 1 << 27  # numbers of all proofs together, zeros included: a file may not ask for more memory
_NONE = -1  # in place of a form: a proof that needs no relaxation
_COLUMNS = 7

Arrays = dict[str, NDArray[np.generic]]
Numbers = tuple[dict[str, Array], dict[str, Array]]  # multipliers and shift by name


class StoredProof(Protocol):
    """A proof of which multipliers and shifts are kept, by name."""

    @property
    def multipliers(self) -> Mapping[str, Array]: ...

    @property
    def shift(self) -> Mapping[str, Array]: ...


class WithSpecification(StoredProof, Protocol):
    @property
    def specification(self) -> Specification: ...


def encode(proofs: Sequence[WithSpecification]) -> Arrays:
    """Proofs by relaxations."""
    return encode_specifications([p.specification for p in proofs]) | encode_numbers(proofs)


def encode_specifications(specifications: Sequence[Specification | None]) -> Arrays:
    """None for a proof that needs no relaxation."""
    rows, cuts, reductions = [], [NO_CUTS.table], [np.zeros(0, dtype=np.int64)]
    for s in specifications:
        if s is None:
            rows.append([_NONE] + [0] * (_COLUMNS - 1))
            continue
        reduction = reductions[0] if s.reduction is None else s.reduction
        flags = [FORMS.index(s.form), s.values, s.wide, s.exclusions, s.products]
        rows.append([*(int(flag) for flag in flags), len(s.cuts), len(reduction)])
        cuts.append(s.cuts.table)
        reductions.append(reduction)
    return {
        "specifications": np.array(rows, dtype=np.int64).reshape(-1, _COLUMNS),
        "cuts": np.concatenate(cuts),
        "reductions": np.concatenate(reductions),
    }


def encode_numbers(proofs: Sequence[StoredProof]) -> Arrays:
    """Multipliers and shifts, entries that are not zero."""
    names: dict[str, int] = {}
    segments: list[tuple[int, int, int, int, int]] = []
    index, numbers = [np.zeros(0, dtype=np.int64)], [np.zeros(0)]
    for number, proof in enumerate(proofs):
        for side, parts in enumerate((proof.multipliers, proof.shift)):
            for name, values in parts.items():
                entries = np.flatnonzero(values)
                segments.append((number, side, names.setdefault(name, len(names)), len(values), len(entries)))
                index.append(entries)
                numbers.append(values[entries])
    return {
        "names": np.array(list(names) or [""], dtype="U64"),
        "segments": np.array(segments, dtype=np.int64).reshape(-1, 5),
        "index": np.concatenate(index).astype(np.int32),
        "numbers": np.concatenate(numbers),
    }


def decode_specifications(arrays: Mapping[str, Any], method: str) -> list[Specification | None]:
    """The inverse of `encode_specifications`; every specification was asked for by this method."""
    table, cuts = whole(arrays, "specifications", (None, _COLUMNS), _NONE, LARGEST_WHOLE), read_cuts(arrays, "cuts")
    reductions = whole(arrays, "reductions", (None,), 0, LARGEST_WHOLE)
    check_count(len(table))
    most = [len(FORMS) - 1, 1, 1, 1, 1, len(cuts), len(reductions)]
    fits = within(table, [_NONE, 0, 0, 0, 0, 0, 0], most)
    if not fits or table[:, 5].sum() != len(cuts) or table[:, 6].sum() != len(reductions):
        raise FileFormatError("the specifications of the proof, its cuts and its reductions do not fit together")
    own_cuts = np.split(cuts, np.cumsum(table[:, 5]))[:-1]
    for some in own_cuts:
        check_cuts(some)
    own_reductions = np.split(reductions, np.cumsum(table[:, 6]))[:-1]
    found: list[Specification | None] = []
    for row, some, reduction in zip(table, own_cuts, own_reductions, strict=True):
        values, wide, exclusions, products = (bool(flag) for flag in row[1:5])
        found.append(
            None
            if row[0] == _NONE
            else Specification(
                method,
                FORMS[row[0]],
                values,
                wide,
                exclusions,
                None,
                products,
                Cuts(some),
                reduction if len(reduction) else None,
            )
        )
    return found


def decode_numbers(arrays: Mapping[str, Any], count: int) -> list[Numbers]:
    """The inverse of `encode_numbers`, for `count` proofs."""
    check_count(count)
    names, values = arrays["names"], real(arrays, "numbers", (None,))
    segments = whole(arrays, "segments", (None, 5), 0, MOST_NUMBERS)
    index = whole(arrays, "index", (len(values),), 0, MOST_NUMBERS)
    highs = [count - 1, 1, len(names) - 1 if names.ndim == 1 else -1, MOST_NUMBERS, len(values)]
    fits = names.ndim == 1 and within(segments, [0] * 5, highs) and int(segments[:, 4].sum()) == len(values)
    fits = fits and int(segments[:, 3].sum()) <= MOST_NUMBERS
    if not (fits and np.all(index < np.repeat(segments[:, 3], segments[:, 4]))):
        raise FileFormatError("the numbers of the proof do not fit together")
    starts = np.concatenate([[0], np.cumsum(segments[:, 4])])
    if len(np.unique(segments[:, :3], axis=0)) < len(segments):
        raise FileFormatError("the proof has numbers of one name twice")
    none: Numbers = ({}, {})  # most leaves of a tree have no numbers: one for all of them
    proofs = [none] * count
    for (proof, side, name, length, entries), start in zip(segments, starts, strict=False):
        full, some = np.zeros(length), slice(start, start + entries)
        full[index[some]] = values[some]
        if proofs[proof] is none:
            proofs[proof] = ({}, {})
        proofs[proof][side][str(names[name])] = full
    return proofs


def read_cuts(arrays: Mapping[str, Any], name: str) -> NDArray[np.int64]:
    """A table of cuts from a file; which entries of a relaxation it names is checked where it is used."""
    table = whole(arrays, name, (None, CUT_COLUMNS), -MOST_NUMBERS, MOST_NUMBERS)
    if not valid_table(table):
        raise FileFormatError("the table of cuts is not one")
    return table


def check_count(proofs: int) -> None:
    """Refuse a file with more proofs than anybody writes."""
    if proofs > MOST_PROOFS:
        raise FileFormatError(f"{proofs:,} proofs in one file are more than the limit of {MOST_PROOFS:,}")


def check_cuts(table: NDArray[np.int64]) -> None:
    """Refuse the cuts of a proof where they are more than anybody writes, or one stands there twice."""
    if len(table) > MOST_CUTS:
        raise FileFormatError(f"{len(table):,} cuts of one proof are more than the limit of {MOST_CUTS:,}")
    if repeated(table):
        raise FileFormatError("a cut of the proof stands there twice, which proves nothing more")
