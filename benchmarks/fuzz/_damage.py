"""Damage to files: bytes of any, words of texts, arrays and members of archives."""

from __future__ import annotations

import io
import re
import warnings
import zipfile

import numpy as np

from benchmarks.fuzz._edits import reshaped, tampered
from benchmarks.fuzz._problems import Random

TEXTS = (".nnet", ".vnnlib", ".pop", ".json", ".gms", ".in", ".csv", ".sides.csv")
WILD = (0, 1, 127, 128, 255)
TOKENS = (
    *("", "0", "-1", "1e400", "nan", "inf", "9" * 40, "1e-400", "0x10", "x", "x^64", "(x+y+1)^9", "((((", "))))", ","),
    *("((((x^64)^64)^64)^64)", "*(x+y+1)" * 400, "1" * 30000),
    *("\n", "\0", "\u202e", "[[[[", "{", "null", "<=", ">=", "=", "^", "*", "or", "and", "X_0", "X_99999999", "#", ";"),
    *("=E=", "=L=", "x1.lo", "sqr(", "power(x1, 64)", "**", "**64", "..", "$include x", "1D400", "eps", "Solve"),
)
KINDS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)


def damaged(rng: Random, suffix: str, content: bytes) -> bytes:
    """One to three kinds of harm."""
    for _ in range(int(rng.integers(1, 4))):
        if suffix.endswith(".npz") and rng.random() < 0.6:
            content = _archive(rng, content)
        elif suffix in TEXTS and rng.random() < 0.7:
            content = _words(rng, content)
        else:
            content = _bytes(rng, content)
    return content


def _bytes(rng: Random, content: bytes) -> bytes:
    changed = bytearray(content)
    a, b = sorted(int(n) for n in rng.integers(0, len(content) + 1, size=2))
    match int(rng.integers(6)):
        case 0:
            return content[:a]
        case 1:
            return content[:a] + content[b:]
        case 2:
            return content[:b] + content[a:]
        case 3:
            width = int(rng.choice([2, 4, 8]))
            number = int(rng.choice([0, 1, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1])) % (1 << 8 * width)
            word = number.to_bytes(width, "big" if rng.random() < 0.5 else "little")
            return content[:a] + word + content[a + width :]
        case _:
            for place in rng.integers(0, max(len(changed), 1), size=int(rng.integers(1, 6))):
                if changed:
                    changed[place] = int(rng.choice([*WILD, int(rng.integers(256))]))
            return bytes(changed)


def _words(rng: Random, content: bytes) -> bytes:
    """Words replaced, put in, repeated, or lines moved."""
    text = content.decode("utf-8", "replace")
    parts = re.split(r"(\s+|[(),;:\[\]{}*^+])", text)
    at = int(rng.integers(len(parts)))
    match int(rng.integers(5)):
        case 0:
            parts[at] = str(rng.choice(TOKENS))
        case 1:
            parts.insert(at, str(rng.choice(TOKENS)))
        case 2:
            parts[at] = parts[at] * int(rng.choice([2, 50, 2000]))
        case 3:
            lines = text.split("\n")
            rng.shuffle(lines)
            return "\n".join(lines).encode()
        case _:
            lines = text.split("\n")
            k = int(rng.integers(len(lines)))
            return "\n".join(lines[:k] + lines[k : k + 1] * int(rng.choice([0, 2, 300])) + lines[k + 1 :]).encode()
    return "".join(parts).encode("utf-8", "replace")


def _archive(rng: Random, content: bytes) -> bytes:
    """An array changed, a member packed in another way, twice there, under another name, or gone."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as stored:
            arrays = dict(stored)
    except Exception:  # damaged already
        return _bytes(rng, content)
    if not arrays:
        return content
    name = str(rng.choice(sorted(arrays)))
    names = [*arrays]
    match int(rng.integers(6)):
        case 0:
            names.remove(name)
        case 1:
            names.append(str(rng.choice([name, "../x", "W1", "b1", "x" * 300, "\u202e"])))
            arrays.setdefault(names[-1], arrays[name])
        case 2 | 3:
            arrays[name] = reshaped(rng, arrays[name])
        case _:
            arrays[name] = tampered(rng, arrays[name])
    kind = KINDS[int(rng.choice(4, p=[0.6, 0.2, 0.1, 0.1]))]
    grown = bytes(int(rng.choice([0, 0, 0, 1, 1 << 20])))  # behind the array, and not declared
    stream = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(stream, "w") as archive:
        warnings.simplefilter("ignore")  # a name that is there twice
        for own in names:
            body = io.BytesIO()
            np.save(body, arrays[own], allow_pickle=False)
            content = body.getvalue() + (grown if own == name else b"")
            # A member has its own way to be packed: that of the archive is only for those that do not say.
            archive.writestr(zipfile.ZipInfo(f"{own}.npy"), content, compress_type=kind)
    return _restated(stream.getvalue(), rng, len(grown))


def _restated(content: bytes, rng: Random, grown: int) -> bytes:
    """With a size that lies in one of the entries of the directory, and in the header of its member."""
    places = [m.start() for m in re.finditer(rb"PK\x01\x02", content)]
    if not places or (not grown and rng.random() < 0.7):
        return content
    changed = bytearray(content)
    sizes = [int.from_bytes(content[at + 24 : at + 28], "little") for at in places]
    at = places[int(np.argmax(sizes)) if grown else int(rng.integers(len(places)))]
    size = max(max(sizes) - grown if grown else sizes[places.index(at)] + int(rng.choice([-8, -1, 1, 8, 1 << 20])), 0)
    local = int.from_bytes(content[at + 42 : at + 46], "little")
    for place in (at + 24, local + 22):
        if place + 4 <= len(changed):
            changed[place : place + 4] = size.to_bytes(4, "little")
    return bytes(changed)
