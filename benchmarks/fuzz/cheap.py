"""Bounds that need no solver, on random problems: none lies below a gradient, no witness above what its point has.

product, interval, linear and mixed; linear bounds of many boxes at once; slopes with the multipliers of a greedy pass,
good or spoilt, which hold for any slopes within their intervals and so are set beside Jacobians of such slopes too; and
a short search for a witness.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.fuzz._cuts import inside, ready
from benchmarks.fuzz._harness import Verdict
from benchmarks.fuzz._oracle import SLACK, floor, is_exact, jacobians, norms_at, operator_norms, points_of
from benchmarks.fuzz._problems import Case, Random, random_case, random_region
from benchmarks.fuzz._smaller import smaller
from lipcert import Activation, Box, Network, Polytope
from lipcert.bounds import whole
from lipcert.budget import Budget
from lipcert.errors import LipcertError
from lipcert.method.branching.judge import judge
from lipcert.problem.blocks import Block
from lipcert.problem.problem import Problem
from lipcert.problem.region import Region, ball_of
from lipcert.proof.arithmetic import (
    prove_elimination,
    prove_interval,
    prove_linear,
    prove_mixed,
    prove_product,
    refusal,
)
from lipcert.proof.certificate import Certificate
from lipcert.proof.slopes import prove_slopes
from lipcert.proof.verify import verify
from lipcert.relaxation.slopes import SlopeMultipliers, SlopeProgram, slope_program
from lipcert.rounding import Array
from lipcert.solver.slopes.greedy import scalar_multipliers
from lipcert.witness import search

ENUMERATE, VERIFY, LOOK = 50, 20, 10  # every so many cases
MOST = 256  # choices of slopes that are all tried
TURNS = ("interval", "linear", "mixed", "slopes", "cells", "cells")  # by the number of a case, besides product
CELLS = 16  # boxes at once
PROVERS = {"product": prove_product, "interval": prove_interval, "linear": prove_linear, "mixed": prove_mixed}


class Cheap:
    name = "cheap"

    def make(self, rng: Random, number: int) -> Case:
        return random_case(rng, number)

    def methods(self, number: int, /) -> tuple[str, ...]:
        return "product", TURNS[number % len(TURNS)]

    def judge(self, case: Case) -> Verdict:
        """Which checks beside the first are made depends on the number alone."""
        rng, number, verdict = np.random.default_rng(case.seed), case.seed, Verdict()
        made = made_ready(case, rng, verdict)
        if made is None:
            return verdict
        case = made
        problem = self.problem(case, rng, verdict)
        seen = floor(case, rng, number % ENUMERATE == 0)
        chosen = self.methods(number)
        found = {name: PROVERS[name](problem) for name in chosen if name in PROVERS}
        if refusal(problem) is None:
            found["elimination"] = prove_elimination(problem)
        by_slopes = self._slopes(problem, rng, verdict) if "slopes" in chosen else None
        if by_slopes is not None:
            found["slopes"] = by_slopes
        if "cells" in chosen and case.network.depth:
            self._cells(case, problem, rng, verdict)
        if number % LOOK == 0 and not verdict.fault:
            seen = max(seen, self._witness(case, problem, verdict))
        for name, certificate in found.items():
            verdict.counts.append(name)
            if not certificate.upper >= seen:
                verdict.fault, verdict.detail = f"{name} too small", f"{certificate.upper!r}, but {seen!r} is attained"
            if number % VERIFY == 0 and np.isfinite(certificate.upper):
                verdict.counts.append("verified")
                if not verify(certificate, case.network).proved:
                    verdict.fault, verdict.detail = f"{name} not proved again", f"{certificate.upper!r}"
        return verdict

    def problem(self, case: Case, rng: Random, verdict: Verdict) -> Problem:  # noqa: ARG002 - as every kind says it
        """The problem that is judged."""
        return case.problem()

    def _cells(self, case: Case, problem: Problem, rng: Random, verdict: Verdict) -> None:
        """Linear bounds of many boxes at once, as branch and bound makes them; of a ball only its own points count."""
        inputs, ball = case.network.inputs, ball_of(case.region)
        at, radii = rng.normal(size=(CELLS, inputs)), 10.0 ** rng.uniform(-3, 0.5, size=(CELLS, 1))
        if ball is not None:
            at, radii = ball.center + ball.radius * at / np.sqrt(inputs), ball.radius * radii
        boxes = [
            Box(center, radius * (rng.uniform(size=inputs) < 0.9)) for center, radius in zip(at, radii, strict=True)
        ]
        regions = _parts(rng, case.region, CELLS) or boxes
        uppers = judge(problem, [whole(case.network, region) for region in regions]).uppers
        points = [points_of(rng, region, inputs, 8) for region in regions]
        if ball is not None:
            points = [some[inside(problem.region, some)] for some in points]
        seen = np.zeros(CELLS)
        owner = np.repeat(np.arange(CELLS), [len(some) for some in points])
        if not len(owner):
            return
        np.maximum.at(seen, owner, norms_at(case, np.concatenate(points)))
        verdict.cases += CELLS
        verdict.counts += ["cells"] * CELLS
        if not np.all(uppers >= seen):
            k = int(np.argmax(~(uppers >= seen)))
            verdict.fault, verdict.detail = "cells too small", f"box {k}: {uppers[k]!r}, but {seen[k]!r} is attained"

    def _slopes(self, problem: Problem, rng: Random, verdict: Verdict) -> Certificate | None:
        """A bound by multipliers of any quality, which no Jacobian with slopes within their intervals exceeds."""
        if problem.norm.out not in (None, "2") or (problem.norm.p == "1" and problem.norm.out is None):
            return None
        try:
            program = slope_program(problem)
        except LipcertError:
            return None
        some = spoilt(rng, program)
        certificate = None if some is None else prove_slopes(problem, some)
        if certificate is not None and np.isfinite(certificate.upper):
            rival = Rival(program).largest(rng)
            if not certificate.upper >= rival * (1 - 1e-12):
                verdict.fault, verdict.detail = "slopes below a Jacobian", f"{certificate.upper!r}, not {rival!r}"
        return certificate

    def _witness(self, case: Case, problem: Problem, verdict: Verdict) -> float:
        """A witness lies in the region, and its point has what it says, by the oracle."""
        found = search(problem, Budget.of_work(0.002), seed=case.seed, samples=40)
        verdict.counts.append("witness")
        if found.value > 0 and not inside(problem.region, found.point[None])[0]:
            verdict.fault, verdict.detail = "witness outside", f"{found.point!r}"
        J, off, size = jacobians(case, found.point[None, :])
        J, size = (J, size) if case.c is None else ((case.c @ J)[:, None, :], (np.abs(case.c) @ size)[None, :])
        if off[0] and is_exact(case) and np.all(np.isfinite(J)):
            own = float(operator_norms(J, case.p, case.q)[0])
            price = float(operator_norms(size[None], case.p, case.q)[0])
            if np.isfinite(own) and not found.value <= own * (1 + SLACK) + 1e-12 * price:
                verdict.fault, verdict.detail = "witness too large", f"{found.value!r}, its point has {own!r}"
        return found.value

    def smaller(self, case: Case) -> Iterable[Case]:
        return smaller(case)

    def save(self, case: Case, stem: Path) -> dict[str, Any]:
        return case.save(stem)

    def load(self, stem: Path, about: dict[str, Any]) -> Case:
        return Case.load(stem, about)


def made_ready(case: Case, rng: Random, verdict: Verdict) -> Case | None:
    """With half-spaces made ready; None where they are proved to have no point, which is wrong where there is one."""
    region = case.region
    if not isinstance(region, Polytope):
        return case
    verdict.counts.append("cut")
    made, points = ready(rng, region), points_of(rng, region, region.size, 24)
    if made is None:
        verdict.counts.append("empty")
        if len(points):
            verdict.fault, verdict.detail = "not empty", f"{points[0]!r} satisfies all half-spaces"
        return None
    if not np.all(inside(made.box, points)):
        verdict.fault, verdict.detail = "box too small", "a point of the region lies outside of the box around it"
        return None
    return replace(case, region=made)


def _parts(rng: Random, region: Region, count: int) -> list[Polytope]:
    """Cells of a box cut by half-spaces, as branching makes them; none of another region."""
    if not isinstance(region, Polytope) or not isinstance(region.base, Box):
        return []
    lo, hi = region.box.lo, region.box.hi
    ends = np.sort(rng.uniform(size=(count, 2, region.size)), axis=1)
    boxes = [Box.from_bounds(*np.clip(lo + share * (hi - lo), lo, hi)) for share in ends]
    return [region.within(box) for box in boxes]


class Deep(Cheap):
    """Slopes alone, on networks of 5 to 16 blocks that are wide enough for norms to be far from their products."""

    name = "deep"

    def make(self, rng: Random, number: int) -> Case:
        kind = replace(random_case(rng, number, blocks=1), network=deep_network(rng))
        c = None if kind.c is None else rng.normal(size=kind.network.outputs)
        return replace(
            kind,
            region=random_region(rng, kind.network.inputs),
            c=c,
            p=str(rng.choice(["2", "inf"])),
            q=None if c is not None else "2",
        )

    def methods(self, _: int, /) -> tuple[str, ...]:
        return "product", "slopes"


def deep_network(rng: Random) -> Network:
    """Weights of a scale that keeps signals alive, with biases, skips or neither."""
    widths = rng.integers(1, 9, size=int(rng.integers(6, 18)))
    skips, biased = rng.uniform() < 0.3, rng.uniform() < 0.5
    kinds = ("relu", "relu", "leaky_relu", "tanh", "elu")
    blocks: list[Block] = []
    for i in range(1, len(widths)):
        sources = {i - 1} | ({int(rng.integers(i))} if skips else set())
        scale = rng.uniform(0.7, 2.0)
        terms = tuple(
            (j, scale * rng.normal(size=(widths[i], widths[j])) / np.sqrt(widths[j])) for j in sorted(sources)
        )
        bias = rng.normal(size=widths[i]) if biased else np.zeros(widths[i])
        last = i == len(widths) - 1
        blocks.append(Block(terms, bias, Activation("identity" if last else str(rng.choice(kinds)), 0.1)))
    return Network.from_blocks(blocks)


def spoilt(rng: Random, program: SlopeProgram) -> SlopeMultipliers | None:
    """Multipliers of a greedy pass, the same with a little noise or with much, or nonsense."""
    found = scalar_multipliers(program)
    spread = float(rng.choice([0.0, 0.1, 1.0, -1.0]))
    if found is None or not spread:
        return found
    if spread < 0:
        return SlopeMultipliers(tuple(t * 10.0 ** rng.uniform(0, 3) for t in found.neurons), found.inputs)
    noisy = tuple(t * np.exp(spread * rng.normal(size=t.shape)) for t in found.neurons)
    inputs = None if found.inputs is None else found.inputs * np.exp(spread * rng.normal(size=found.inputs.shape))
    return SlopeMultipliers(noisy, inputs)


class Rival:
    """Jacobians of a program by slopes, for many choices of the slopes of all neurons at once."""

    def __init__(self, program: SlopeProgram) -> None:
        self.program = program
        self.low = np.concatenate([np.zeros(0), *(b.a for b in program.blocks)])
        self.high = np.concatenate([np.zeros(0), *(b.b for b in program.blocks)])
        self.free = np.flatnonzero(self.low < self.high)

    def norms(self, slopes: Array) -> Array:
        """At most the norm of each Jacobian: exact from norm 2, the best of some signs from norm inf."""
        inputs = self.program.inputs
        xs: list[Array] = [np.broadcast_to(np.eye(inputs), (len(slopes), inputs, inputs))]
        start = 0
        for block in self.program.blocks:
            z = sum((_dense(w) @ xs[j] for j, w in block.terms), np.zeros((block.width, inputs)))
            xs.append(slopes[:, start : start + block.width, None] * z)
            start += block.width
        J = sum((_dense(w) @ xs[j] for j, w in self.program.head), np.zeros((len(slopes), 1, inputs)))
        if not self.program.weighted:
            return np.asarray(np.linalg.norm(J, 2, axis=(1, 2)))
        signs = np.where(J[:, :1] >= 0, 1.0, -1.0)  # those of the first row, improved by turns
        best = np.zeros(len(slopes))
        for _ in range(3):
            along = J @ signs.transpose(0, 2, 1)
            best = np.maximum(best, np.linalg.norm(along[:, :, 0], axis=1))
            signs = np.where((J.transpose(0, 2, 1) @ along)[:, :, 0] >= 0, 1.0, -1.0)[:, None, :]
        return best

    def largest(self, rng: Random) -> float:
        """All choices of ends where they are few, else random ones."""
        count = len(self.free)
        if 2**count <= MOST:
            ends = np.array(list(itertools.product((False, True), repeat=count)), dtype=bool)
        else:
            ends = rng.random((MOST // 2, count)) < rng.choice([0.3, 0.5, 0.8, 1.0], size=(MOST // 2, 1))
        slopes = np.tile(self.low, (len(ends), 1))
        slopes[:, self.free] = np.where(ends, self.high[self.free], self.low[self.free])
        found = self.norms(slopes)
        return float(np.max(found[np.isfinite(found)], initial=0.0))


def _dense(weight: Any) -> Array:
    return weight if isinstance(weight, np.ndarray) else np.asarray(weight.toarray())
