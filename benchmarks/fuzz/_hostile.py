"""Hostile numbers, and forgeries that are made of them on purpose rather than by chance.

Every array of an honest proof is emptied, zeroed or filled with a number at an end of its type: alone, with all others
of the proof emptied, and in pairs. The claim is lowered each time, so that a proof of it would be a false one.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import cache
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.fuzz._edits import Arrays, mended

WHOLE_TYPES = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
WHOLE: tuple[tuple[int, str], ...] = (
    *((int(np.iinfo(t).min), t) for t in WHOLE_TYPES if t.startswith("i")),
    *((int(np.iinfo(t).max), t) for t in WHOLE_TYPES),
    *((2**31, "i8"), (2**32, "i8"), (2**53, "i8"), (2**63, "u8"), (-(2**31), "i8"), (-1, "i8"), (0, "i8"), (1, "i8")),
)
REAL: tuple[float, ...] = (
    *(0.0, -0.0, 5e-324, -5e-324, 2.0**-1022, 1e-300, 1.0, -1.0, 2.0**31, 2.0**32, 2.0**53, 2.0**63, 2.0**1023),
    *(float(np.finfo(np.float64).max), -float(np.finfo(np.float64).max), np.inf, -np.inf, np.nan),
)
PAIRED = (-2, -1, 3, 15, 16)  # changes that are made of two arrays at once
QUESTION = frozenset(  # what a file is about, and what tells which kind it is: a proof is the rest
    {
        *(
            "certificate",
            "kind",
            "proof",
            "method",
            "network",
            "norm",
            "output_norm",
            "c",
            "coordinate",
            "upper",
            "literal_form",
        ),
        *("lo", "hi", "center", "radius", "clip", "names", "scores", "inputs", "lower", "claim", "claims"),
        *("margins", "cells", "jacobian", "union", "polynomial", "problem", "sense", "bound"),
    }
)
EMPTIED, ZEROED = -2, -1

WORDS = ("wording", "sentence")
Change = tuple[str, int]  # an array, and what becomes of it: EMPTIED, ZEROED, or a place in its palette
Edit = tuple[tuple[Change, ...], bool]  # changes, and whether all other arrays of the proof are emptied


def edits(arrays: Arrays) -> list[Edit]:
    """All of them for a proof, those first that leave nothing else of it."""
    names = sorted(name for name, values in arrays.items() if values.dtype.kind in "iuf")
    proof = [name for name in names if name not in QUESTION]
    found: list[Edit] = [(((name, k),), True) for name in proof for k in range(ZEROED, len(_palette(arrays[name])))]
    found += [(((name, k),), False) for name in names for k in range(EMPTIED, len(_palette(arrays[name])))]
    for one, other in combinations(proof, 2):
        found += [(((one, j), (other, k)), False) for j, k in product(PAIRED, PAIRED)]
    return found


def edited(arrays: Arrays, edit: Edit) -> Arrays:
    """The forgery: the edit, a lower claim, and digests of what is there now."""
    changes, alone = edit
    found = arrays | {name: _changed(arrays[name], k) for name, k in changes}
    if alone:
        kept = {name for name, _ in changes} | QUESTION
        rest = {name: v for name, v in arrays.items() if name not in kept and v.dtype.kind in "iuf" and v.ndim}
        found |= {name: values[:0] for name, values in rest.items()}
    touched = {name for name, _ in changes}
    return mended(found | {name: v for name, v in lowered(arrays).items() if name not in touched})


def lowered(arrays: Arrays) -> Arrays:
    """Claims that no honest proof supports."""
    if "seen_most" in arrays:
        middle = (arrays["lower"] + arrays["upper"]) / 2
        return {"lower": middle, "upper": middle}
    if "bound" in arrays:
        better = 1.0 if str(arrays["sense"]) == "min" else -1.0
        return {"bound": np.asarray(arrays["bound"] + better * (1e-3 + np.abs(arrays["bound"]) / 2))}
    if "claim" in arrays:
        return {"claim": arrays["claim"] - 1.0 - np.abs(arrays["claim"])}
    return {name: np.asarray(arrays[name] * 1e-3) for name in ("upper", "claims") if name in arrays}


@cache
def _values(kind: str) -> tuple[NDArray[Any], ...]:
    whole = tuple(np.array(value, dtype=t) for value, t in WHOLE)
    real = tuple(np.array(value) for value in REAL)
    return (*whole, real[-1]) if kind == "whole" else (*real, whole[3], whole[-5])


def _palette(values: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    return _values("whole" if values.dtype.kind in "iu" else "real")


def _changed(values: NDArray[Any], k: int) -> NDArray[Any]:
    if k == EMPTIED:
        return values[:0] if values.ndim else np.zeros(0, dtype=values.dtype)
    if k == ZEROED:
        return np.zeros_like(values)
    value = _palette(values)[k % len(_palette(values))]
    found = np.full(values.shape, value)
    if values.size > 3 and k % 2:  # every other number stays what it was, where the type holds both
        found = np.where(np.arange(values.size).reshape(values.shape) % 2 == 0, found, values.astype(found.dtype))
    return np.asarray(found)


def in_a_file(content: bytes, number: int) -> bytes:
    """The same in an .npz of a folder."""
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        arrays = wordless(dict(stored))
    every = edits(arrays)
    return packed(edited(arrays, every[number % len(every)])) if every else content


def packed(arrays: Arrays) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **arrays)
    return stream.getvalue()


def wordless(arrays: Arrays) -> Arrays:
    """Without the words of the statement, which would give most forgeries away before any number is looked at."""
    found = {name: value for name, value in arrays.items() if name not in WORDS}
    for name, part in parts(found):
        found[name] = np.frombuffer(packed({n: v for n, v in part.items() if n not in WORDS}), dtype=np.uint8)
    return found


def parts(arrays: Arrays) -> Iterator[tuple[str, Arrays]]:
    """The certificates inside that of several regions."""
    for name in sorted(n for n in arrays if n.startswith("part_")):
        with np.load(io.BytesIO(arrays[name].tobytes()), allow_pickle=False) as stored:
            yield name, dict(stored)
