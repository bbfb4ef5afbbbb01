"""Result: the bracket [lower, upper] and everything needed to defend it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from lipcert.errors import SoundnessError
from lipcert.method.mip.claim import Claim
from lipcert.problem.frame import Frame
from lipcert.problem.norms import Norm
from lipcert.problem.output import Output
from lipcert.problem.region import Region
from lipcert.proof import Certificate
from lipcert.rounding import Array
from lipcert.witness import Witness


def relative_gap(lower: float | None, upper: float) -> float | None:
    """(upper - lower) / lower, when both are there and lower > 0 (0 when both are 0)."""
    if lower is None or not math.isfinite(upper):
        return None
    if lower <= 0.0:
        return 0.0 if lower == upper == 0.0 else None
    return (upper - lower) / lower


class Status(Enum):
    """How the computation ended; the value is the sentence for a person."""

    DONE = "finished"
    OPEN = "ended with a gap that nothing here closes"
    TIME_LIMIT = "stopped at the time limit with the best proved bracket so far"
    WORK_LIMIT = "stopped when the work was done, with the best proved bracket so far"
    INTERRUPTED = "interrupted with the best proved bracket so far"


@dataclass(frozen=True, eq=False)
class Result:
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
    network: dict[str, Any]
    notes: tuple[str, ...] = field(default=())
    claim: Claim | None = None  # what a mixed-integer solver says; no part of the bracket
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
        """(upper - lower) / lower, when both are there and lower > 0 (0 when both are 0)."""
        return relative_gap(self.lower, self.upper)

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
            "network": self.network,
            "witness": None if self.witness is None else [float(e) for e in self.witness],
            "claim": None if self.claim is None else self.claim.to_dict(),
            "notes": list(self.notes),
        }
