"""Edits of arrays, as a forger or an accident makes them."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.fuzz._problems import Random
from lipcert.proof import encoding, tree

Arrays = dict[str, NDArray[Any]]
WORDS = (
    "",
    "product",
    "linear",
    "elimination",
    "tight",
    "shor",
    "slopes",
    "tree",
    "exact",
    "inf",
    "2",
    "1",
    "rows",
    "x",
)


def forged(rng: Random, honest: Arrays, other: Arrays) -> Arrays:
    """One to three arrays changed, or the claim alone; digests are mended, so that they are not what stops it."""
    if "part_0" in honest and rng.random() < 0.7:
        return _in_a_part(rng, honest)
    arrays = dict(honest)
    if rng.random() < 0.7:
        arrays |= boasted(rng, arrays)
        if rng.random() < 0.2:
            return arrays
    for _ in range(int(rng.integers(1, 4))):
        texts = rng.random() < 0.15
        name = str(rng.choice([n for n in sorted(arrays) if texts or arrays[n].dtype.kind != "U"] or sorted(arrays)))
        match int(rng.integers(18)):
            case 0:
                arrays.pop(name)
            case 1 if name in other:
                arrays[name] = other[name]
            case 2:
                arrays[name] = reshaped(rng, arrays[name])
            case 3:
                arrays[name] = odd(rng, arrays[name])
            case 4:
                arrays |= repeated(rng, arrays)
            case _:
                arrays[name] = tampered(rng, arrays[name])
        if not arrays:
            return dict(honest)
    return mended(arrays) if rng.random() < 0.9 else arrays


def boasted(rng: Random, arrays: Arrays) -> Arrays:
    """Claims that say more than was proved, by much or by little: of all numbers, or of one."""
    share = float(rng.choice([1.0, 0.5, 0.1, 0.01, 1e-6, 1e-12, 0.0]))
    if "lower" in arrays and "seen_most" in arrays:  # enclosures: ends move towards each other, what was seen apart
        wide = arrays["upper"] - arrays["lower"]
        moves = {"lower": wide, "upper": -wide, "seen_most": wide, "seen_least": -wide}
    elif "bound" in arrays:  # of a minimum or of a maximum
        moves = {"bound": np.abs(arrays["bound"]) * float(rng.choice([-1.0, 1.0]))}
    else:
        names = [name for name in ("upper", "claims", "claim") if name in arrays]
        moves = {name: -np.abs(arrays[name]) for name in names}
    if not moves:
        return {}
    name = str(rng.choice(sorted(moves)))
    with np.errstate(all="ignore"):
        where = np.ones(np.shape(arrays[name])) if rng.random() < 0.5 else rng.random(np.shape(arrays[name])) < 0.4
        return {name: np.asarray(arrays[name] + share * where * moves[name])}


def _in_a_part(rng: Random, honest: Arrays) -> Arrays:
    """One certificate of several regions is forged, or takes the place of another."""
    names = [name for name in honest if name.startswith("part_")]
    name, other = (str(rng.choice(names)) for _ in range(2))
    parts = []
    for k in (name, other):
        with np.load(io.BytesIO(honest[k].tobytes()), allow_pickle=False) as stored:
            parts.append(dict(stored))
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **forged(rng, *parts))
    return honest | {name: np.frombuffer(stream.getvalue(), dtype=np.uint8)}


def mended(arrays: Arrays) -> Arrays:
    """With the digests of what is there now."""
    own = {n for n in arrays if n in f"{tree.NAMES}|{encoding.NAMES}".split("|")} - {"tree_digest"}
    if "tree_digest" in arrays:
        arrays["tree_digest"] = np.array(tree.digest({n: arrays[n] for n in arrays if n in own}), dtype="U64")
    signs = ("patterns", "nogood_literals", "nogood_rows", "nogood_numbers")
    if "patterns_digest" in arrays:
        arrays["patterns_digest"] = np.array(tree.digest({n: arrays[n] for n in arrays if n in signs}), dtype="U64")
    return arrays


def odd(rng: Random, values: NDArray[Any]) -> NDArray[Any]:
    """Values that nobody writes: NaN, fractions, the largest whole numbers, no axes, characters that do not exist."""
    if values.dtype.kind == "U":
        codes = np.full((values.size, 4), int(rng.choice([0x110000, 0xFFFFFFFF, 0xD800, 0x202E, 10])), dtype="<u4")
        return codes.view("<U4").reshape(values.shape)
    numbers = np.array(values, dtype=np.float64)
    match int(rng.integers(5)):
        case 0:
            return np.full(values.shape, float(rng.choice([np.nan, np.inf, -np.inf])))
        case 1:
            return numbers + 0.5
        case 2:
            return np.full(values.shape, np.iinfo(np.uint64).max, dtype=np.uint64)
        case 3:
            return np.array(float(rng.choice([0.5, np.nan, 7.0])))
        case _:
            return numbers.astype(np.longdouble)


def repeated(rng: Random, arrays: Arrays) -> Arrays:
    """The cuts, cases, nogoods or numbers of a proof many times over, with the counts that belong to them."""
    times = int(rng.choice([2, 1000]))
    if "cuts" in arrays and "specifications" in arrays and arrays["cuts"].ndim == arrays["specifications"].ndim == 2:
        cuts = arrays["cuts"] if len(arrays["cuts"]) else np.array([[1, 0, 1, 2, 0, 1, -1, 0, 0]])
        counts = np.array(arrays["specifications"])
        if counts.size and counts.shape[1] == 7 and counts.dtype.kind in "iu":
            counts[:, 5] = 0
            counts[0, 5] = times * len(cuts)
            return {"cuts": np.tile(cuts, (times, 1)), "specifications": counts}
    for names in (("nogood_literals",), ("nogood_rows", "nogood_numbers"), ("slope_parts",), ("cases",)):
        if all(n in arrays and arrays[n].ndim for n in names):
            return {n: np.concatenate([arrays[n]] * times) for n in names}
    return {}


def reshaped(rng: Random, values: NDArray[Any]) -> NDArray[Any]:
    """Rows cut, repeated or shuffled, an axis more or fewer, another type of number."""
    match int(rng.integers(6)):
        case 0 if values.ndim:
            return values[: int(rng.integers(0, len(values) + 1))]
        case 1 if values.ndim and len(values):
            return values[rng.integers(0, len(values), size=len(values))]
        case 2 if values.ndim:
            return np.concatenate([values, values])
        case 3:
            return values[None]
        case 4:
            return values.reshape(-1)
        case _ if values.dtype.kind in "if":
            return values.astype(rng.choice(["<f4", "<f8", "<i4", "<i8", "<u1"]))
        case _:
            return np.zeros(values.shape)


def tampered(rng: Random, values: NDArray[Any]) -> NDArray[Any]:
    """One or some numbers, or one character, changed."""
    flat = np.array(values).reshape(-1)
    if not flat.size:
        return np.zeros(int(rng.integers(1, 3)), dtype=values.dtype)
    i = int(rng.integers(flat.size))
    if flat.dtype.kind == "U":
        text = list(str(flat[i])) or [" "]
        text[int(rng.integers(len(text)))] = str(rng.choice(list("0123456789abcdef +-z=<>")))
        flat[i] = "".join(text) if rng.random() < 0.5 else str(rng.choice(WORDS))
    elif flat.dtype.kind in "iu":
        near = int(flat[i]) + int(rng.integers(-3, 5))
        number = near if rng.random() < 0.7 else int(rng.choice([0, -1, 1, 2**31, 127]))
        flat[i] = np.array(number % 2**64, dtype=np.uint64).astype(flat.dtype)
    elif flat.dtype.kind == "f":
        some = rng.random(flat.size) < rng.choice([0.0, 0.2, 1.0])
        some[i] = True
        flat = np.where(some, _numbers(rng, flat), flat)
    return flat.reshape(np.shape(values))


def _numbers(rng: Random, x: NDArray[Any]) -> NDArray[Any]:
    match int(rng.integers(7)):
        case 0:
            return np.asarray(x * (1 + rng.normal(size=x.shape) * 10.0 ** rng.uniform(-14, 0)))
        case 1:
            return np.asarray(x + rng.normal(size=x.shape) * 10.0 ** rng.uniform(-12, 2))
        case 2:
            return -x
        case 3:
            return np.full(x.shape, float(rng.choice([0.0, np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324])))
        case 4:
            return np.asarray(x * 10.0 ** rng.uniform(-3, 3))
        case 5:
            return np.zeros(x.shape)
        case _:
            bits = x.astype(np.float64).view(np.uint64)
            return np.asarray((bits ^ (np.uint64(1) << np.uint64(rng.integers(64)))).view(np.float64))
