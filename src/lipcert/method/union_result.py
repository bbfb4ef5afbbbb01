"""UnionResult: the brackets of several regions, and the bracket of their largest constant."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from typing import Any

from lipcert.chart.facts import Facts, Shown
from lipcert.chart.numbers import rounded_down, rounded_up
from lipcert.errors import InputError
from lipcert.files import write_bytes
from lipcert.method.result import Result, gap_words
from lipcert.proof.union import UnionCertificate
from lipcert.rounding import Array
from lipcert.search.progress import Status, relative_gap

_SHOWN = 5  # regions that a person reads first


@dataclass(frozen=True, eq=False, repr=False)
class UnionResult(Shown):
    """What `bound_union` returns: lower <= L <= upper for the largest constant of all regions.

    `parts` are the brackets of the regions, in their order, without those that are proved to have no point (a note says
    so); `certificate` has the proofs of all of them.
    """

    parts: tuple[Result, ...]
    status: Status
    seconds: float
    work: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def upper(self) -> float:
        """The largest proved upper bound; infinite when of some region nothing was proved."""
        return max(part.upper for part in self.parts)

    @property
    def lower(self) -> float | None:
        """The largest gradient norm found in any region; None when no search was asked for."""
        return max((part.lower for part in self.parts if part.lower is not None), default=None)

    @property
    def witness(self) -> Array | None:
        """The input where the gradient has norm `lower`."""
        return next((part.witness for part in self.parts if part.lower is not None and part.lower == self.lower), None)

    @property
    def certificate(self) -> UnionCertificate:
        """The certificates of all regions."""
        return UnionCertificate(tuple(part.certificate for part in self.parts))

    @property
    def certified(self) -> bool:
        """True when `upper` is a finite proved number."""
        return math.isfinite(self.upper)

    @property
    def gap(self) -> float | None:
        """(upper - lower) / lower, when both are there and lower > 0 (0 when both are 0)."""
        return relative_gap(self.lower, self.upper)

    def facts(self) -> Facts:
        """What a person wants to read first."""
        first = self.parts[0]
        rows = [
            (
                "upper",
                f"{rounded_up(self.upper)}   the largest, proved" if self.certified else "none   nothing was proved",
            )
        ]
        if self.lower is not None:
            rows.append(("lower", f"{rounded_down(self.lower)}   attained at a point of one of the regions"))
        rows.append(("gap", gap_words(self.gap)))
        rows.append(("network", "-".join(map(str, first.network["shape"]))))
        rows += self.certificate.statement.rows
        order = sorted(range(len(self.parts)), key=lambda k: -self.parts[k].upper)
        for k in order[:_SHOWN]:
            part = self.parts[k]
            lower = "" if part.lower is None else f"{rounded_down(part.lower)} to "
            rows.append((f"region {k}", f"{lower}{rounded_up(part.upper)} ({part.method})   {part.region.words}"))
        if len(order) > _SHOWN:
            rows.append(("", f"and {len(order) - _SHOWN} regions with smaller upper bounds"))
        rows.append(("time", f"{self.seconds:.2f} s   {self.status.value}"))
        rows += [("note", note) for note in self.notes]
        return Facts(self.certificate.statement.sentence, rows)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result as .json, or its certificates as .npz for `lipcert verify`."""
        match os.path.splitext(os.fspath(path))[1].lower():
            case ".json":
                write_bytes(path, (json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n").encode())
            case ".npz":
                self.certificate.save(path)
            case ending:
                raise InputError(f"{path}: a result is saved as .json, its certificate as .npz, not as {ending!r}")

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: as of one region, `region` a union, and `regions` with the bracket of each."""
        first = self.parts[0].to_dict()
        witness = self.witness
        own = {
            "upper": self.upper if self.certified else None,
            "lower": self.lower,
            "gap": self.gap,
            "method": max(self.parts, key=lambda part: part.upper).method,
            "lower_method": None,
            "status": self.status.name.lower(),
            "certified": self.certified,
            "seconds": round(self.seconds, 4),
            "work": round(self.work, 6),
            "region": {"type": "union", "count": len(self.parts)},
            "witness": None if witness is None else [float(e) for e in witness],
            "statement": self.certificate.statement.to_dict(),
            "notes": list(self.notes),
        }
        keys = ("upper", "lower", "gap", "method", "lower_method", "status", "region", "witness", "notes")
        regions = [{key: value for key, value in part.to_dict().items() if key in keys} for part in self.parts]
        return first | own | {"regions": regions}
