"""Bounds by solvers, on tiny problems: relaxations, slopes, cells and signs, also where the solver lies.

Every certificate is verified again and none lies below what is attained. A solver's answer is a hint: with multipliers
that are spoilt the proof may be worse, or none, but never wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import lipcert
from benchmarks.fuzz._harness import Verdict
from benchmarks.fuzz._oracle import floor, points_of
from benchmarks.fuzz._problems import Case, Random, random_case, random_region
from benchmarks.fuzz._smaller import smaller
from benchmarks.fuzz.cheap import made_ready
from lipcert import Network
from lipcert.budget import Budget
from lipcert.method.halfspaces import NoPointError
from lipcert.method.solving import Task
from lipcert.method.table import named
from lipcert.problem.problem import Problem
from lipcert.proof import Certificate, Multipliers
from lipcert.proof.cases import ProvedCase, case_of, case_table, prove_cases
from lipcert.rounding import Array
from lipcert.solver.rank_two import Options, solve_rank_two

# Relaxations are solved once and proved from several sets of multipliers; whole methods, which take longer, seldom.
RELAXED = ("shor", "hr2", "backward", "forward", "both", "backward-free", "forward-free", "both-free", "tight")
WHOLE = ("tight", "slopes", "exact", "auto")
WHOLE_EVERY, ENUMERATE = 100, 10
WORK = 0.02  # nominal seconds of a whole method
LIES = 15  # sets of spoilt multipliers
ITERATIONS = (3, 3, 3, 25)  # of the interior point: few, so that multipliers are rough, or enough


class Relaxations:
    name = "relaxations"

    def make(self, rng: Random, number: int) -> Case:
        case = random_case(rng, number, blocks=int(rng.integers(1, 3)), width=3)
        if number % 3 == 0:  # where the paper's relaxations apply
            n, m = (int(k) for k in rng.integers(1, 5, size=2))
            net = Network.from_weights([rng.normal(size=(m, n)), rng.normal(size=(1, m))], [rng.normal(size=m), [0.0]])
            case = Case(net, random_region(rng, n), np.ones(1), "inf", None, number)
        names = WHOLE if number % WHOLE_EVERY == 0 else [n for n in RELAXED if named(n).refusal(case.problem()) is None]
        return replace(case, method=str(rng.choice(names or ["slopes"])))

    def judge(self, case: Case) -> Verdict:
        rng, verdict = np.random.default_rng(case.seed), Verdict([case.method])
        made = made_ready(case, rng, verdict)
        if made is None:
            return verdict
        case, problem = made, made.problem()
        seen = floor(case, rng, case.seed % ENUMERATE == 0)
        if named(case.method).refusal(problem) is not None:
            return Verdict(["refused"])
        if case.method in WHOLE and (case.seed % WHOLE_EVERY == 0 or case.method == "slopes"):
            return self._whole(case, seen, verdict)
        found = list(self._certificates(case, problem, rng))
        verdict.cases = max(len(found), 1)
        for k, certificate in enumerate(found):
            verdict.counts.append("lies" if k else "solved")
            self._check(certificate, case, seen, verdict, again=k == case.seed % len(found))
        return verdict

    def _certificates(self, case: Case, problem: Problem, rng: Random) -> Iterable[Certificate]:
        """From what the solver says, and from what it does not say."""
        try:
            table = case_table(problem) if problem.has_cases else np.zeros((1, 1))
            at = divmod(int(np.argmax(table)), table.shape[1])
            task = Task.of(case_of(problem, *at) if problem.has_cases else problem, case.method)
            options = Options(tolerance=1e-6, iterations=int(rng.choice(ITERATIONS)))
            y = solve_rank_two(task.relaxation.problem, options, budget=Budget.of_work(1.0)).y
        except (lipcert.LipcertError, ArithmeticError, ValueError):  # as `method.relaxed` treats them: no proof
            return
        for k in range(LIES + 1):
            own = task.prove(lied(rng, y) if k else y)
            if problem.has_cases:  # the largest of all, of which one has this proof
                assert isinstance(own.proof, Multipliers)
                own = prove_cases(problem, case.method, table, (ProvedCase(at[0], at[1], own.proof, own.upper),))
            yield own

    def _whole(self, case: Case, seen: float, verdict: Verdict) -> Verdict:
        problem = case.problem()
        about: dict[str, Any] = {"output": problem.output, "norm": case.p, "output_norm": case.q}
        try:
            found = lipcert.bound(
                case.network, case.region, **about, method=case.method, work=WORK, seed=case.seed, memory="4G"
            )
        except lipcert.MethodError:
            return Verdict(["refused"])
        except NoPointError:
            if len(points_of(np.random.default_rng(case.seed), case.region, case.network.inputs)):
                verdict.fault, verdict.detail = "not empty", "some points satisfy all half-spaces"
            return verdict
        verdict.counts.append("whole")
        self._check(found.certificate, case, max(seen, found.lower or 0.0), verdict, again=True)
        return verdict

    def _check(self, certificate: Certificate, case: Case, seen: float, verdict: Verdict, again: bool) -> None:
        """Building the rows again takes most of the time: of one network one certificate is verified."""
        if not certificate.upper >= seen:
            detail = f"{certificate.upper!r}, but {seen!r} is attained"
            verdict.fault, verdict.detail = f"{case.method} too small", detail
        if again and np.isfinite(certificate.upper):
            verdict.counts.append("verified")
            answer = lipcert.verify(certificate, case.network)
            if not answer.proved:
                verdict.fault, verdict.detail = f"{case.method} not proved again", answer.reason

    def smaller(self, case: Case) -> Iterable[Case]:
        return smaller(case)

    def save(self, case: Case, stem: Path) -> dict[str, Any]:
        return case.save(stem)

    def load(self, stem: Path, about: dict[str, Any]) -> Case:
        return Case.load(stem, about)


def lied(rng: Random, y: Array) -> Array:
    """Multipliers with a little noise or much, of the wrong sign or size, with numbers that are none, or cut off."""
    match int(rng.integers(7)):
        case 0:
            return np.asarray(y * (1 + 1e-6 * rng.normal(size=y.shape)))
        case 1:
            return np.asarray(y + 0.1 * rng.normal(size=y.shape) * np.max(np.abs(y), initial=1e-3))
        case 2:
            return -y
        case 3:
            return np.asarray(y * 10.0 ** rng.uniform(-3, 3))
        case 4:
            return np.where(rng.random(y.shape) < 0.1, rng.choice((np.nan, np.inf, -np.inf, 1e300)), y)
        case 5:
            return np.where(rng.random(y.shape) < 0.3, 0.0, y)
        case _:
            return np.zeros_like(y)
