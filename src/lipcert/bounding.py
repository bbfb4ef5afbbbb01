"""bound(): picks the proofs and searches, keeps the best bracket, never an unproved number."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from lipcert.certificate import Certificate, prove_interval, prove_product
from lipcert.errors import InputError, MethodError
from lipcert.lower import Witness, search
from lipcert.network import Network
from lipcert.norms import Norm, parse_norm
from lipcert.output import Output, OutputChoice, choose_output
from lipcert.propagation import preactivation_bounds
from lipcert.region import Region, check_region
from lipcert.result import Result, Status

METHODS: tuple[str, ...] = ("auto", "product", "interval")
_LOWER_SHARE = 0.5  # of the time limit, at most, for lower bounds


@dataclass(frozen=True)
class Progress:
    """The bracket in hand while `bound` works."""

    seconds: float
    lower: float | None
    upper: float
    stage: str


def bound(
    net: Network,
    region: Region,
    *,
    output: OutputChoice | Output = None,
    norm: str | Norm = "inf",
    method: str = "auto",
    time_limit: float = 60.0,
    seed: int = 0,
    lower: bool = True,
    on_progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Bracket the Lipschitz constant of one scalar output on a region:

        L = max { ||gradient of c'scores at x||_dual : x in region }

    Args:
        net: from `lipcert.load`, `lipcert.from_torch` or `Network.from_weights`.
        region: `Box(center, radius)` or `Everywhere()`.
        output: a label, a pair (i, j) for score_i - score_j, or a weight vector; may be left out for a single output.
        norm: the norm of input changes; "inf".
        method: "auto" (the best that the time allows), "product" or "interval".
        time_limit: seconds; the best proved bracket so far is returned when it is reached, or on Ctrl-C.
        seed: of the random search for the lower bound.
        lower: False leaves the lower bound out.
        on_progress: called with a `Progress` whenever the bracket or the stage changes.

    Guarantees: `upper` is proved with outward rounding for the given float64 weights; `lower` is a proved lower bound
    of the gradient norm at `witness`, a point of the region.
    """
    if method not in METHODS:
        raise MethodError(f"unknown method {method!r}; use one of {', '.join(METHODS)}")
    if not (isinstance(time_limit, int | float) and math.isfinite(time_limit) and time_limit > 0):
        raise InputError(f"time_limit must be a positive number of seconds, not {time_limit!r}")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise InputError(f"seed must be a whole number >= 0, not {seed!r}")
    check_region(region, net.inputs)
    job = _Job(net, region, choose_output(output, net.outputs), parse_norm(norm), on_progress)
    try:
        job.prove(method, time_limit)
        if lower:
            job.search(min(_LOWER_SHARE * time_limit, job.start + time_limit - time.monotonic()), seed)
    except KeyboardInterrupt:
        job.status = Status.INTERRUPTED
        if job.best is None:
            raise
    return job.result()


class _Job:
    """The mutable side of one call: the best certificate and witness so far."""

    def __init__(
        self, net: Network, region: Region, output: Output, norm: Norm, on_progress: Callable[[Progress], None] | None
    ) -> None:
        self.net, self.region, self.output, self.norm = net, region, output, norm
        self.on_progress = on_progress
        self.start = time.monotonic()
        self.status = Status.DONE
        self.best: Certificate | None = None
        self.witness: Witness | None = None
        self.stage = "product"

    def prove(self, method: str, time_limit: float) -> None:
        arguments = (self.net, self.region, self.norm, self.output.c)
        if method in ("auto", "product"):
            self._keep(prove_product(*arguments))
        if method in ("auto", "interval"):
            self._enter("interval")
            deadline = self.start + time_limit
            pre = preactivation_bounds(self.net, self.region, deadline=deadline)
            if time.monotonic() > deadline:
                self.status = Status.TIME_LIMIT
            self._keep(prove_interval(*arguments, pre))

    def search(self, seconds: float, seed: int) -> None:
        self._enter("lower bound")
        self.witness = search(
            self.net, self.region, self.output.c, self.norm, seconds=max(seconds, 0.0), seed=seed, on_progress=self._see
        )

    def _keep(self, certificate: Certificate) -> None:
        if self.best is None or certificate.upper < self.best.upper:
            self.best = certificate
        self._report()

    def _see(self, witness: Witness) -> None:
        self.witness = witness
        self._report()

    def _enter(self, stage: str) -> None:
        self.stage = stage
        self._report()

    def _report(self) -> None:
        if self.on_progress is not None:
            upper = math.inf if self.best is None else self.best.upper
            lower = None if self.witness is None else self.witness.value
            self.on_progress(Progress(time.monotonic() - self.start, lower, upper, self.stage))

    def result(self) -> Result:
        assert self.best is not None
        return Result(
            certificate=self.best,
            best=self.witness,
            status=self.status,
            seconds=time.monotonic() - self.start,
            region=self.region,
            norm=self.norm,
            output=self.output,
            network={"sha256": self.net.sha256, "shape": list(self.net.shape)},
            notes=self.net.notes,
        )
