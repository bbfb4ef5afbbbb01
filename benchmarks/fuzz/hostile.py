"""Constructed forgeries of every kind of proof, one after the other: in Python, on the command line and with --exact.

Case k is about kind k modulo their number, and of that kind the next edit of its first base, then of the second.
"""

from __future__ import annotations

import io
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from benchmarks.fuzz import forged
from benchmarks.fuzz._edits import Arrays
from benchmarks.fuzz._harness import Verdict
from benchmarks.fuzz._hostile import Edit, edited, edits, packed, parts
from benchmarks.fuzz._problems import Random
from benchmarks.fuzz.forged import Forged, Forgery
from lipcert.cli.app import run

EXACT = 3  # every so many that go to the command line are checked with --exact as well


@cache
def _edits(index: int) -> tuple[Arrays, list[Edit]]:
    """The part of a base that is forged: the first of several regions."""
    own = forged.base(index).arrays
    arrays = next(parts(own))[1] if "part_0" in own else own
    return arrays, edits(arrays)


def _nth(kind: int, number: int) -> tuple[int, Edit]:
    """The base of this kind, and its edit; after the last one of the last base the first again."""
    while True:
        for index in range(kind, forged.BASES, len(forged.KINDS)):
            own = _edits(index)[1]
            if number < len(own):
                return index, own[number]
            number -= len(own)


class Hostile(Forged):
    name = "hostile"

    def make(self, rng: Random, number: int) -> Forgery:  # noqa: ARG002 - nothing is left to chance
        index, edit = _nth(number % len(forged.KINDS), number // len(forged.KINDS))
        own = forged.base(index)
        found = edited(_edits(index)[0], edit)
        if "part_0" in own.arrays:
            name = next(parts(own.arrays))[0]
            found = own.arrays | {name: np.frombuffer(packed(found), dtype=np.uint8)}
        return Forgery(own, found, number // len(forged.KINDS))

    def judge(self, case: Forgery) -> Verdict:
        verdict = super().judge(case)
        if not verdict.fault and case.number % (forged.COMMAND * EXACT) == 0 and "polynomial" not in case.arrays:
            self._exactly(case, verdict)
        return verdict

    def _exactly(self, case: Forgery, verdict: Verdict) -> None:
        """The second checker proves nothing that the first one refuses, and ends with an answer."""
        if find_spec("flint") is None:
            return
        with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()):
            path, net = Path(folder) / "forged.npz", Path(folder) / "net.npz"
            path.write_bytes(packed(case.arrays))
            case.base.case.network.save(net)
            with redirect_stderr(io.StringIO()) as said:
                code = run(["verify", str(path), "--network", str(net), "--exact"])
        proved = verdict.counts[0].startswith("proved")
        verdict.counts.append(f"exact exits {code}")
        if code not in (0, 1, 2) or (code == 0 and not proved):
            verdict.fault, verdict.detail = f"exact exits {code}", said.getvalue()[:300]
