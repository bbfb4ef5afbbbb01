"""The question that `certify` answers, and how a job folder states it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lipcert.errors import InputError, shown
from lipcert.files.json_kinds import flag, many, maybe, number, record, size, text, whole
from lipcert.problem.arrays import floats_of
from lipcert.problem.network import Network
from lipcert.problem.norms import INF, Norm, parse_norm
from lipcert.problem.region import Box, Everywhere
from lipcert.robustness.data import DataSet, check_fits
from lipcert.robustness.decision import NO_DOMAIN, NO_DOMAIN_TYPED, class_count, shared_region
from lipcert.robustness.pairs import check_method, method_and_region
from lipcert.search.settings import Settings

Radii = float | Sequence[float]
Domain = tuple[float, float] | None

MAX_RADII = 1000
TIME_LIMIT = "time_limit"  # more of it is a reason to go on with a job
_STORED = record(
    network=text,
    data=text,
    radii=many(size),
    domain=maybe(many(number)),
    clip=flag,
    method=text,
    solver=text,
    time_limit=size,
    lower=flag,
    seed=whole(),
    norm=maybe(text, instead=str(INF)),
)


@dataclass(frozen=True, eq=False)
class DataQuestion:
    """Which inputs of a data set keep their class: everything that the answer depends on.

    `settings` say how the constants of pairs are proved; their time limit and memory are for each pair. With
    `per_input` there are none, without there are all, and None leaves it to a trial (`robustness.trial`).
    """

    net: Network
    data: DataSet
    radii: tuple[float, ...]
    domain: Domain
    clip: bool
    norm: Norm
    settings: Settings
    refine: float = 0.0
    per_input: bool | None = None

    @classmethod
    def of_job(cls, stored: Mapping[str, Any], net: Network, data: DataSet) -> DataQuestion:
        """The question of a job folder; a network or data set with another hash than the job's is refused."""
        values = _STORED(stored, "question")
        _same("network", net.sha256, values["network"])
        _same("data", data.sha256, values["data"])
        names = ("method", "solver", "time_limit", "lower", "seed")
        settings = Settings(**{name: values[name] for name in names})
        where = (check_radii(values["radii"]), check_domain(values["domain"]), values["clip"])
        question = cls(net, data, *where, parse_norm(values["norm"]), settings)
        question.check()
        return question

    def check(self) -> None:
        """Refuse arguments that do not fit together, before any work."""
        check_fits(self.data, self.net.inputs, class_count(self.net), self.domain)
        check_method(self.net, self.settings, self.norm)
        if self.clip and self.domain is None:
            raise InputError(NO_DOMAIN, NO_DOMAIN_TYPED)

    @property
    def sentence(self) -> str:
        """The question for a person."""
        return data_sentence(len(self.data), self.radii, self.norm, self.domain, self.clip)

    @property
    def limits(self) -> Domain:
        """The interval that all values of perturbed inputs must stay in; None without clipping."""
        return self.domain if self.clip else None

    @property
    def region(self) -> Box:
        """The box that holds every ball."""
        return shared_region(self.data.inputs, self.radii[-1], self.domain, self.clip)

    def method_and_region(self) -> tuple[str, Box | Everywhere]:
        """The method that proves the constants, and where they hold: in the region, or everywhere."""
        return method_and_region(self.net, self.region, self.settings, self.norm)

    def to_dict(self) -> dict[str, Any]:
        """The question as a job folder states it, without `refine` and `per_input`, which say how far to go and on
        which way: a job may be resumed with more time, or on the other way."""
        norm = {} if self.norm == INF else {"norm": str(self.norm)}  # jobs had no norm before others than inf existed
        return norm | {
            "network": self.net.sha256,
            "data": self.data.sha256,
            "radii": list(self.radii),
            "domain": None if self.domain is None else list(self.domain),
            "clip": self.clip,
            "method": self.settings.method,
            "solver": self.settings.solver,
            TIME_LIMIT: self.settings.time_limit,
            "lower": self.settings.lower,
            "seed": self.settings.seed,
        }


def data_sentence(
    count: int, radii: Sequence[float], norm: Norm, domain: tuple[float, float] | None, clip: bool
) -> str:
    """The sentence about a data set: the one who certifies it and the one who proves it again print the same."""
    within = ", ".join(f"{r:g}" for r in radii)
    limits = "" if domain is None else f", values in [{domain[0]:g}, {domain[1]:g}]{', clipped' if clip else ''}"
    return f"Certification of {count:,} input{'' if count == 1 else 's'} within {within} {norm.phrase}{limits}"


def check_radii(radius: Radii) -> tuple[float, ...]:
    """The radii in increasing order, without repetitions."""
    try:
        radii = sorted({float(r) for r in np.atleast_1d(floats_of(radius))})
    except (TypeError, ValueError):
        raise InputError(f"radius must be a number or several, not {shown(radius)}") from None
    bad = next((r for r in radii if not (math.isfinite(r) and r > 0)), None)
    if bad is not None:
        raise InputError.about("radius", f"{bad:g}: a radius is a positive finite number")
    if not 1 <= len(radii) <= MAX_RADII:
        raise InputError.about("radius", f"has {len(radii)} numbers; give 1 to {MAX_RADII}")
    return tuple(radii)


def check_domain(domain: Sequence[float] | None) -> Domain:
    """The ends of the domain as two floats; None where there is none."""
    if domain is None:
        return None
    try:
        ends = floats_of(domain)
    except (TypeError, ValueError):
        ends = np.zeros(0)
    if ends.shape != (2,):
        raise InputError(f"domain={shown(domain)}: the domain is two numbers, low <= high")
    lo, hi = float(ends[0]), float(ends[1])
    if not (math.isfinite(lo) and math.isfinite(hi) and lo <= hi):
        raise InputError(f"the domain [{lo:g}, {hi:g}] needs two finite numbers, low <= high")
    return lo, hi


def check_seconds(refine: float) -> float:
    """The seconds of refinement as a float >= 0."""
    if not (isinstance(refine, int | float) and math.isfinite(refine) and refine >= 0):
        raise InputError.about("refine", f"must be a number of seconds >= 0, not {refine!r}")
    return float(refine)


def _same(what: str, found: str, asked: str) -> None:
    if found != asked:
        more = "" if what == "network" else ", with the same labels, scale and number of inputs"
        raise InputError(f"the {what} is not that of the job (the hashes differ); give the one it was made with{more}")
