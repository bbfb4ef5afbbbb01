"""Result: the bracket [lower, upper] and everything needed to defend it."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from lipcert.budget.budget import Work
from lipcert.chart.facts import Facts, Shown
from lipcert.chart.numbers import rounded_down, rounded_up
from lipcert.errors import InputError, SoundnessError
from lipcert.problem.frame import Frame
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.problem.output import Output
from lipcert.problem.region import Region
from lipcert.proof import Certificate
from lipcert.proof.union import UnionCertificate
from lipcert.rounding import Array
from lipcert.search.progress import Status, relative_gap
from lipcert.steps import Expired
from lipcert.witness import Witness

ROUNDING = 1e-9  # a relative gap below which only rounding keeps the two ends apart


def gap_words(gap: float | None) -> str:
    """The gap in words for a person: closed, a percentage, or unknown."""
    if gap is not None and gap <= ROUNDING:
        return "closed   upper and lower are the same but for rounding"
    return f"{'unknown' if gap is None else f'{100 * gap:.3g} %'}   (upper - lower) / lower"


Verdict = Literal["proved", "refuted", "open"]


def is_below(limit: float, lower: float | None, upper: float) -> Verdict:
    """Whether a bracket proves `constant < limit`, refutes it, or leaves it open."""
    if upper < limit:
        return "proved"
    return "refuted" if lower is not None and lower >= limit else "open"


class NetworkSummary(dict[str, Any]):
    """The network of a result as a dictionary: "shape", and "sha256", which is computed at the first look."""

    def __init__(self, net: Network) -> None:
        super().__init__(shape=list(net.shape))
        self._net = net

    def __missing__(self, name: str) -> str:
        if name != "sha256":
            raise KeyError(name)
        return self._net.sha256

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; the hash is null where an enforced time limit ends before it is computed."""
        try:
            found: str | None = self["sha256"]
        except Expired:
            found = None
        return {"sha256": found, **self}


@dataclass(frozen=True)
class Turn:
    """A slice of time that `auto` gave to one engine: when it began and its length in seconds, the bound that the
    engine has proved by itself, and the bracket after the slice."""

    engine: str
    begin: float
    seconds: float
    own: float
    lower: float
    upper: float

    def moved(self, seconds: float) -> Turn:
        """The same slice, so many seconds later."""
        return replace(self, begin=self.begin + seconds)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; bounds that are infinite are null."""
        return {name: value if value != math.inf else None for name, value in asdict(self).items()}


def turn_lines(turns: Sequence[Turn]) -> list[str]:
    """A table of the turns with its heads; slices that follow each other and belong to one engine are one line."""
    lines = [f"{'engine':16s}{'from':>9s}{'for':>9s}   {'own bound':>12s}   bracket"]
    at = 0
    while at < len(turns):
        end = next((k for k in range(at, len(turns)) if turns[k].engine != turns[at].engine), len(turns))
        last, seconds = turns[end - 1], sum(turn.seconds for turn in turns[at:end])
        own = rounded_up(last.own) if math.isfinite(last.own) else "-"
        upper = rounded_up(last.upper) if math.isfinite(last.upper) else "inf"
        bracket = f"[{rounded_down(last.lower)}, {upper}]"
        lines.append(f"{last.engine:16s}{turns[at].begin:9.3f}{seconds:9.3f}   {own:>12s}   {bracket}")
        at = end
    return lines


@dataclass(frozen=True, eq=False, repr=False)
class Result(Shown):
    """The answer of `bound`: lower <= L <= upper.

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
    network: NetworkSummary
    notes: tuple[str, ...] = field(default=())
    turns: tuple[Turn, ...] = field(default=())  # slices of time of `auto` and `exact`
    explain: bool = False  # whether the table has the turns
    frame: Frame | None = None  # weights of the norms, and which inputs change
    work: float = 0.0  # counted, in nominal seconds of one core: about what `bound(work=...)` needs to come as far

    def __post_init__(self) -> None:
        if self.best is not None and self.best.value > self.certificate.upper:
            raise SoundnessError(
                f"upper bound {self.certificate.upper!r} ({self.method}) lies below the gradient norm "
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
        """The short table that a person reads first."""
        proved, attained = self._origins()
        rows = [("upper", f"{rounded_up(self.upper)}   {proved}" if self.certified else "none   nothing was proved")]
        if self.lower is not None:
            rows.append(("lower", f"{rounded_down(self.lower)}   {attained}"))
        rows.append(("gap", gap_words(self.gap)))
        rows.append(("network", "-".join(map(str, self.network["shape"]))))
        rows += [*self.certificate.statement.rows, *self._regions()]
        rows.append(("time", f"{self.seconds:.2f} s   {self.status.value}"))
        rows += [("note", note) for note in self.notes]
        if self.explain:
            rows += [("turn", line) for line in turn_lines(self.turns)]
        return Facts(self.certificate.statement.sentence, rows)

    def _origins(self) -> tuple[str, str]:
        """The origins of `upper` and of `lower` in words."""
        by = "" if self.best is None else self.best.method
        return f"proved ({self.method})", f"attained at a point of the region ({by})"

    def _regions(self) -> list[tuple[str, str]]:
        """Rows about single regions where there are several."""
        return []

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result as .json, or its certificate as .npz for `lipcert verify`."""
        match os.path.splitext(os.fspath(path))[1].lower():
            case ".json":
                super().save(path)
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
        } | ({"turns": [turn.to_dict() for turn in self.turns]} if self.explain else {})


_SHOWN = 5  # regions in the table of a result
_OF_A_REGION = ("upper", "lower", "gap", "method", "lower_method", "status", "region", "witness", "notes")


@dataclass(frozen=True, eq=False, repr=False)
class UnionResult(Result):
    """The answer of `bound` for several regions: lower <= L <= upper for the largest of their constants.

    `parts` are the brackets of the regions, in their order, without those that are proved to have no point (a note says
    so); `certificate` has the proofs of all of them. `region` is the one with the largest upper bound.
    """

    certificate: UnionCertificate  # type: ignore[assignment]  # it has all that a result reads of a `Certificate`
    parts: tuple[Result, ...] = ()

    @classmethod
    def of(cls, parts: Sequence[Result], status: Status, spent: Work, notes: Sequence[str]) -> UnionResult:
        """The result for all regions, from their results: the largest upper and the largest lower bound."""
        top = max(parts, key=lambda part: part.upper)
        found = [part.best for part in parts if part.best is not None]
        about = {name: getattr(top, name) for name in ("region", "norm", "output", "network", "frame")}
        return cls(
            certificate=UnionCertificate(tuple(part.certificate for part in parts)),
            best=max(found, key=lambda best: best.value, default=None),
            status=status,
            seconds=spent.wall,
            work=spent.counted,
            notes=tuple(notes),
            parts=tuple(parts),
            **about,
        )

    @property
    def method(self) -> str:
        """The method that proved the largest upper bound."""
        return max(self.parts, key=lambda part: part.upper).method

    def _origins(self) -> tuple[str, str]:
        return "the largest, proved", "attained at a point of one of the regions"

    def _regions(self) -> list[tuple[str, str]]:
        order = sorted(range(len(self.parts)), key=lambda k: -self.parts[k].upper)
        rows = []
        for k in order[:_SHOWN]:
            part = self.parts[k]
            lower = "" if part.lower is None else f"{rounded_down(part.lower)} to "
            rows.append((f"region {k}", f"{lower}{rounded_up(part.upper)} ({part.method})   {part.region.words}"))
        if len(order) > _SHOWN:
            rows.append(("", f"and {len(order) - _SHOWN} regions with smaller upper bounds"))
        return rows

    def to_dict(self) -> dict[str, Any]:
        """The keys are those of one region; `region` is a union, and `regions` has the bracket of each."""
        parts = [part.to_dict() for part in self.parts]
        regions = [{key: value for key, value in part.items() if key in _OF_A_REGION} for part in parts]
        whole = {"region": {"type": "union", "count": len(parts)}, "lower_method": None, "regions": regions}
        return super().to_dict() | whole
