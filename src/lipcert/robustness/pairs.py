"""The constants L_ij of score_i - score_j on the shared region: one piece of a job each, L_ij = L_ji."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from lipcert.bounds.propagation import preactivation_bounds
from lipcert.errors import InputError, MethodError
from lipcert.jobs import Answer, Outcome, Piece
from lipcert.method import table
from lipcert.method.bound import bound
from lipcert.method.literal import LITERAL
from lipcert.problem.network import Network
from lipcert.problem.norms import INF, Norm
from lipcert.problem.problem import Problem
from lipcert.problem.region import Box, Everywhere, Region
from lipcert.proof import Certificate
from lipcert.robustness.decision import class_count, pair_output
from lipcert.rounding import Array
from lipcert.search.progress import Status
from lipcert.search.settings import Settings

MAX_CLASSES = 200
_TIGHT_UP_TO = 800  # order of the moment matrix up to which `auto` takes the region into account


def check_method(net: Network, settings: Settings, norm: Norm) -> None:
    """Refuse a method or a solver that cannot prove the constants of pairs, before any work."""
    shared = [method.name for method in table.METHODS if method.for_many]
    if settings.method not in shared:
        literal = any(method.name == settings.method for method in LITERAL)
        hint = " (its literal form has no certificate)" if literal else ""
        raise MethodError(f"unknown method {settings.method!r}{hint}; use one of {', '.join(shared)}")
    refused = _refusal(net, settings.method, norm)
    if refused is not None:
        raise MethodError(refused)
    table.named(settings.method).check_solver(settings.solver)


@dataclass(frozen=True)
class PairConstant:
    """lower <= L_ij <= upper on the region; no upper when nothing was proved, no lower when none was asked for."""

    i: int
    j: int
    upper: float | None
    lower: float | None
    method: str
    seconds: float
    certificate: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "i": self.i,
            "j": self.j,
            "upper": self.upper,
            "lower": self.lower,
            "method": self.method,
            "seconds": round(self.seconds, 4),
            "certificate": self.certificate,
        }


def method_and_region(
    net: Network, region: Box | Everywhere, settings: Settings, norm: Norm = INF
) -> tuple[str, Box | Everywhere]:
    """The method that the constants of pairs are proved by, where `auto` is resolved, and the region of the proofs.

    `shor` is proved without x, on the whole input space: a proof for every region, and many times faster. `auto` takes
    it for one wide hidden layer, where the relaxations with x take minutes for each pair. `tight` leaves x out there
    too when the region fixes no neuron: x then only costs time (docs/experiments/triangles.md). In the other norms the
    lift without x takes its place.
    """
    method = settings.method
    wide = net.depth == 1 and 1 + 2 * net.inputs + net.neurons > _TIGHT_UP_TO
    if norm != INF:
        free = method == "auto" and wide
        return ("backward-free", Everywhere()) if free else (method, region)
    if method == "auto" and wide:
        if _refusal(net, "shor", INF) is not None:
            return method, region
        method = "shor"
    free = method == "shor" or (method == "tight" and wide and _fixes_nothing(net, region))
    return method, Everywhere() if free else region


def _refusal(net: Network, method: str, norm: Norm) -> str | None:
    """Why a method does not cover a difference of two scores of this network; None when it does."""
    return table.named(method).refusal(Problem.of(net, Everywhere(), pair_output(net, 0, 1), norm))


def _fixes_nothing(net: Network, region: Region) -> bool:
    z = preactivation_bounds(net, region)[0]
    return bool(np.all((z.lo < 0) & (z.hi > 0)))


def pair_pieces(net: Network, region: Box | Everywhere, settings: Settings, norm: Norm = INF) -> list[Piece]:
    """One piece for every pair of classes; the time limit of the settings is for each."""
    classes = class_count(net)
    if classes > MAX_CLASSES:
        raise InputError(f"{classes} classes have {classes * (classes - 1) // 2:,} pairs; the limit is {MAX_CLASSES}")
    method, where = method_and_region(net, region, settings, norm)
    settled = replace(settings, method=method)
    pairs = combinations(range(classes), 2)
    return [Piece(f"pair-{i}-{j}", pair_constant, (net, where, (i, j), settled, norm)) for i, j in pairs]


def pair_constant(net: Network, region: Region, pair: tuple[int, int], settings: Settings, norm: Norm = INF) -> Answer:
    """Bracket L_ij; the certificate goes with it.

    `bound` answers an interrupt with what it has by then. Here it ends the job, which asks again when it goes on.
    """
    i, j = pair
    result = bound(net, region, output=pair_output(net, i, j), norm=norm, **vars(settings))
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    value = {
        "i": i,
        "j": j,
        "upper": _stated(result.certificate) if result.certified else None,
        "lower": None if result.best is None else result.best.value * (1.0 - 1e-9),  # as with `claim`
        "witness": None if result.best is None else result.best.point.tolist(),
        "method": result.method,
        "status": result.status.name.lower(),
        "notes": list(result.notes),
    }
    return Answer(value, {"npz": result.certificate.to_bytes()} if result.certified else {})


def _stated(certificate: Certificate) -> float:
    """The constant as the file states it: another machine proves that one too."""
    return certificate.claim if certificate.upper > 0 and math.isfinite(certificate.claim) else certificate.upper


def constants_of(outcomes: Mapping[str, Outcome]) -> tuple[PairConstant, ...]:
    """The constants of the pairs whose piece has an answer."""
    found = []
    for outcome in outcomes.values():
        v = outcome.value
        if v is not None:
            kept = f"pieces/{outcome.name}.npz" if "npz" in outcome.files else None
            pair = (int(v["i"]), int(v["j"]), v["upper"], v["lower"], str(v["method"]))
            found.append(PairConstant(*pair, outcome.seconds, kept))
    return tuple(found)


def matrix(pairs: tuple[PairConstant, ...], classes: int) -> Array:
    """The symmetric matrix of upper bounds; infinite where there is none."""
    L = np.full((classes, classes), np.inf)
    np.fill_diagonal(L, 0.0)
    for pair in pairs:
        if pair.upper is not None and pair.upper >= 0:  # NaN or less than zero, from a damaged record, is no bound
            L[pair.i, pair.j] = L[pair.j, pair.i] = pair.upper
    return L
