"""Result: the bracket [lower, upper] and everything needed to defend it."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, field
from typing import Any, Literal

from lipcert.chart.facts import Facts, Shown
from lipcert.chart.numbers import rounded_down, rounded_up
from lipcert.errors import InputError, SoundnessError
from lipcert.files import write_bytes
from lipcert.problem.frame import Frame
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.problem.output import Output
from lipcert.problem.region import Region
from lipcert.proof import Certificate
from lipcert.rounding import Array
from lipcert.search.progress import Status, relative_gap
from lipcert.steps import Expired
from lipcert.witness import Witness

CLOSED = 1e-6  # the relative gap at which a bracket is called closed: about what proofs lose to rounding


ROUNDING = 1e-9  # a relative gap below which only rounding keeps the two ends apart


def gap_words(gap: float | None) -> str:
    """For a person: closed, a percentage, or unknown."""
    if gap is not None and gap <= ROUNDING:
        return "closed   upper and lower are the same but for rounding"
    return f"{'unknown' if gap is None else f'{100 * gap:.3g} %'}   (upper - lower) / lower"


Verdict = Literal["proved", "refuted", "open"]


def is_below(limit: float, lower: float | None, upper: float) -> Verdict:
    """What a bracket says about `constant < limit`."""
    if upper < limit:
        return "proved"
    return "refuted" if lower is not None and lower >= limit else "open"


class Described(dict[str, Any]):
    """What a result says about its network: the shape, and the hash, which is computed when it is first looked at."""

    def __init__(self, net: Network) -> None:
        super().__init__(shape=list(net.shape))
        self._net = net

    def __missing__(self, name: str) -> str:
        if name != "sha256":
            raise KeyError(name)
        return self._net.sha256

    def to_dict(self) -> dict[str, Any]:
        """For JSON; where the hash has no time left under an enforced limit, it is null."""
        try:
            found: str | None = self["sha256"]
        except Expired:
            found = None
        return {"sha256": found, **self}


@dataclass(frozen=True, eq=False, repr=False)
class Result(Shown):
    """What `bound` returns: lower <= L <= upper.

    `upper` is proved by `certificate`, which can be saved and verified; `lower` is attained at `witness`. `status` says
    how the computation ended, `seconds` how long it took, `notes` what the user should know (what was left out, say).
    """

    certificate: Certificate
    best: Witness | None
    status: Status
    seconds: float
    region: Region
    norm: Norm
    output: Output
    network: Described
    notes: tuple[str, ...] = field(default=())
    frame: Frame | None = None  # weights of the norms, and which inputs change
    work: float = 0.0  # counted, in nominal seconds of one core: about what `bound(work=...)` needs to come as far

    def __post_init__(self) -> None:
        if self.best is not None and self.best.value > self.certificate.upper:
            raise SoundnessError(
                f"upper bound {self.certificate.upper!r} ({self.certificate.method}) lies below the gradient norm "
                f"{self.best.value!r} at a point of the region: a bug in lipcert, please report it with the network"
            )

    @property
    def upper(self) -> float:
        """The proved upper bound; infinite when nothing was proved."""
        return self.certificate.upper

    @property
    def lower(self) -> float | None:
        """The largest gradient norm found, rounded down; None when no search was asked for."""
        return None if self.best is None else self.best.value

    @property
    def witness(self) -> Array | None:
        """The input where the gradient has norm `lower`."""
        return None if self.best is None else self.best.point

    @property
    def method(self) -> str:
        """The method that proved `upper`."""
        return self.certificate.method

    @property
    def certified(self) -> bool:
        """True when `upper` is a finite proved number."""
        return math.isfinite(self.upper)

    @property
    def gap(self) -> float | None:
        """(upper - lower) / lower, when both are there and lower > 0 (0 when both are 0 but for rounding)."""
        return relative_gap(self.lower, self.upper)

    def facts(self) -> Facts:
        """What a person wants to read first."""
        rows = [
            (
                "upper",
                f"{rounded_up(self.upper)}   proved ({self.method})" if self.certified else "none   nothing was proved",
            )
        ]
        if self.best is not None:
            rows.append(
                ("lower", f"{rounded_down(self.best.value)}   attained at a point of the region ({self.best.method})")
            )
        rows.append(("gap", gap_words(self.gap)))
        rows.append(("network", "-".join(map(str, self.network["shape"]))))
        rows += self.certificate.statement.rows
        rows.append(("time", f"{self.seconds:.2f} s   {self.status.value}"))
        rows += [("note", note) for note in self.notes]
        return Facts(self.certificate.statement.sentence, rows)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result as .json, or its certificate as .npz for `lipcert verify`."""
        match os.path.splitext(os.fspath(path))[1].lower():
            case ".json":
                write_bytes(path, (json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n").encode())
            case ".npz":
                self.certificate.save(path)
            case ending:
                raise InputError(f"{path}: a result is saved as .json, its certificate as .npz, not as {ending!r}")

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; an infinite upper bound is null with `certified` false."""
        return {
            "upper": self.upper if self.certified else None,
            "lower": self.lower,
            "gap": self.gap,
            "method": self.method,
            "lower_method": None if self.best is None else self.best.method,
            "status": self.status.name.lower(),
            "certified": self.certified,
            "seconds": round(self.seconds, 4),
            "work": round(self.work, 6),
            "norm": str(self.norm),
            "output_norm": self.norm.out,
            "weights": None if self.frame is None else self.frame.to_dict(self.norm),
            "region": self.region.to_dict(),
            "output": self.output.description,
            "network": self.network.to_dict(),
            "witness": None if self.witness is None else [float(e) for e in self.witness],
            "statement": self.certificate.statement.to_dict(),
            "claim": None,  # the key of the former method mip, kept for readers of 1.0
            "notes": list(self.notes),
        }
