"""Forged certificates of every kind of proof: none proves a claim below what is attained where it says it holds.

What a file asks is read from the file, so a forger who makes the region smaller asks another question: the oracle
answers that one. Files are refused by one line, or they prove what is true.
"""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import lipcert
from benchmarks.fuzz._cuts import cut, inside, ready
from benchmarks.fuzz._edits import Arrays, forged
from benchmarks.fuzz._harness import Verdict
from benchmarks.fuzz._hostile import wordless
from benchmarks.fuzz._oracle import floor, points_of
from benchmarks.fuzz._problems import NORMS, Case, Random, random_case
from benchmarks.fuzz._questions import JUDGES, MAKERS, Answer, asked_by, attained, question_case
from benchmarks.fuzz.cheap import spoilt
from lipcert import Ball, Box, Network, Polytope
from lipcert.bounds.collapse import collapse
from lipcert.budget import Budget
from lipcert.cli.app import run
from lipcert.jobs import local
from lipcert.method.bracket import Bracket
from lipcert.method.branching import branch
from lipcert.method.branching import refusal as no_cells
from lipcert.method.sharpen import sharpen
from lipcert.method.signs import search_refusal, search_signs
from lipcert.method.solving import Task
from lipcert.method.table import named
from lipcert.problem.problem import Problem
from lipcert.proof import Certificate, Multipliers
from lipcert.proof.arithmetic import prove_elimination, prove_interval, prove_linear, prove_mixed, prove_product
from lipcert.proof.cases import ProvedCase, case_of, case_table, prove_cases
from lipcert.proof.file import load_certificate
from lipcert.proof.sharpened import prove_within
from lipcert.proof.slopes import prove_slopes
from lipcert.proof.verify import verify
from lipcert.relaxation.slopes import slope_program
from lipcert.solver.rank_two import Options, solve_rank_two

KINDS = (
    *("arithmetic", "multipliers", "cases", "slopes", "tree", "patterns", "sharpened", "within"),
    *("halfspaces", "literal", *MAKERS, "weighted"),
)
BASES = 8 * len(KINDS)  # honest certificates, eight of every kind
PLAIN = (prove_product, prove_interval, prove_linear, prove_mixed, prove_elimination)
LITERAL = ("hr1", "lipopt3")
FLAT = ("literal", "weighted")  # networks with one hidden layer
RELAXED = ("tight", "backward", "forward", "both", "shor", "hr2")
ANY = ("arithmetic", "multipliers", "cases", "slopes", "tree", "halfspaces")  # networks and regions of any kind
COMMAND = 8  # every so many forgeries are given to the command line as well
DRAWS = 60  # problems that are drawn until one has a proof of the kind


@dataclass(frozen=True, eq=False)
class Base:
    """A problem, its honest certificate, and what is attained."""

    case: Case
    arrays: Arrays
    attained: float


@cache
def base(index: int) -> Base:
    """Always the same, with the kind of proof of its number."""
    rng, kind = np.random.default_rng([index, 77]), KINDS[index % len(KINDS)]
    for _ in range(DRAWS):
        if kind in MAKERS:
            case = question_case(rng, int(rng.integers(10**6)), kind)
            arrays = _answered(rng, case, kind)
            if arrays is not None:
                return Base(case, wordless(arrays), 0.0)
            continue
        case = small_case(rng, index) if kind in ANY else plain_case(rng, index, 1 if kind in FLAT else 3)
        if kind == "halfspaces":
            case = with_halfspaces(rng, case)
        with np.errstate(all="ignore"):
            found = _certificate(rng, case, kind)
        if found is not None and np.isfinite(found.upper) and found.upper > 0:
            seen = 0.0 if found.frame is not None else floor(case, rng, enumerate_=True)
            return Base(case, wordless(found.arrays()), seen)
    raise AssertionError(f"no problem was found for a proof by {kind}")


def _answered(rng: Random, case: Case, kind: str) -> Arrays | None:
    try:
        with np.errstate(all="ignore"):
            return MAKERS[kind](rng, case)
    except (lipcert.LipcertError, ArithmeticError, ValueError):  # not for this problem
        return None


def with_halfspaces(rng: Random, case: Case) -> Case:
    """Its box or ball cut; as it is where nothing is left of it, or where it has no end."""
    r = case.region
    made = ready(rng, cut(rng, r)) if isinstance(r, Box | Ball) else None
    return case if made is None else replace(case, region=made)


def small_case(rng: Random, index: int) -> Case:
    return random_case(rng, index, blocks=2, width=4)


def plain_case(rng: Random, index: int, depth: int) -> Case:
    """ReLUs in some layers on a box: where signs are branched on, bounds are sharpened, and the paper's methods are."""
    sizes = [int(n) for n in rng.integers(2, 5, size=depth + 1)]
    weights = [rng.normal(size=(m, n)) for n, m in pairwise([*sizes, 1])]
    net = Network.from_weights(weights, [0.5 * rng.normal(size=len(w)) for w in weights])
    return Case(
        net,
        Box(rng.normal(size=sizes[0]), 10.0 ** rng.uniform(-1, 0.3)),
        np.ones(1),
        str(rng.choice(NORMS)),
        None,
        index,
    )


def _certificate(rng: Random, case: Case, kind: str) -> Certificate | None:
    """A proof of this kind, None where the problem has none."""
    problem, budget = case.problem(), Budget.of_work(0.1)
    try:
        match kind:
            case "arithmetic":
                return PLAIN[int(rng.integers(len(PLAIN)))](problem)
            case "halfspaces":
                own = _relaxed(rng, problem) if rng.random() < 0.5 and not problem.has_cases else None
                return (own or prove_linear(problem)) if isinstance(case.region, Polytope) else None
            case "literal":
                return lipcert.bound(
                    case.network, case.region, output=0, norm=case.p, method=str(rng.choice(LITERAL)), work=1.0
                ).certificate
            case "weighted":
                about: dict[str, Any] = {"input_weights": 10.0 ** rng.uniform(-2, 2, size=case.network.inputs)}
                about |= {"inputs": [0] if rng.random() < 0.5 else None, "norm": case.p, "output": 0}
                return lipcert.bound(case.network, case.region, method="linear", work=0.1, **about).certificate
            case "multipliers" | "cases":
                return _relaxed(rng, problem) if problem.has_cases == (kind == "cases") else None
            case "slopes":
                some = spoilt(rng, slope_program(problem)) if case.p != "1" and case.q in (None, "2") else None
                return None if some is None else prove_slopes(problem, some)
            case "tree":
                return branch(problem, Bracket(), budget, local()).certificate if no_cells(problem) is None else None
            case "patterns":
                return search_signs(problem, Bracket(), budget).certificate if search_refusal(problem) is None else None
            case "sharpened":
                better = sharpen(problem, Budget.of_work(1.0)) if search_refusal(problem) is None else None
                return None if better is None else prove_linear(better)
            case _:
                small = collapse(problem)
                return None if small is None else prove_within(problem, prove_linear(small.problem))
    except (lipcert.LipcertError, ArithmeticError, ValueError):  # not for this problem
        return None


def _relaxed(rng: Random, problem: Problem) -> Certificate | None:
    """A certificate of a relaxation whose solver stops early: the whole problem, or the case with the largest bound."""
    method = str(rng.choice(RELAXED))
    if named(method).refusal(problem) is not None:
        return None
    table = case_table(problem) if problem.has_cases else np.zeros((1, 1))
    at = divmod(int(np.argmax(table)), table.shape[1])
    task = Task.of(case_of(problem, *at) if problem.has_cases else problem, method)
    own = task.prove(solve_rank_two(task.relaxation.problem, Options(iterations=12)).y)
    if not problem.has_cases:
        return own
    assert isinstance(own.proof, Multipliers)
    return prove_cases(problem, method, table, (ProvedCase(at[0], at[1], own.proof, own.upper),))


@dataclass(frozen=True, eq=False)
class Forgery:
    """A base, and the arrays in place of its own."""

    base: Base
    arrays: Arrays
    number: int = 0


def _judged(answer: Answer, kind: str) -> Verdict:
    fault = "proves too much" if answer.fault else ""
    return Verdict([f"{'' if answer.proved else 'not '}proved {kind}"], fault=fault, detail=answer.fault)


def _commanded(path: Path, case: Forgery, found: str) -> str:
    """Differences between `lipcert verify` and the library: exit code, one line for an error, valid JSON."""
    case.base.case.network.save(path.with_name("net.npz"))
    out, errors = io.StringIO(), io.StringIO()
    as_json = ["--json"] if case.number % (2 * COMMAND) else []
    with redirect_stdout(out), redirect_stderr(errors):
        code = run(["verify", str(path), "--network", str(path.with_name("net.npz")), *as_json])
    expected = 2 if found == "refused" else int(found.startswith("not"))
    if code != expected or errors.getvalue().count("\n") != (code == 2):
        return f"exit code {code}, not {expected}: {errors.getvalue()[:200]}"
    if as_json and code < 2 and json.loads(out.getvalue(), parse_constant=str)["proved"] != (code == 0):
        return "the JSON says something else than the exit code"
    return "" if code < 2 or not out.getvalue() else "a refusal with a result"


class Forged:
    name = "forged"

    def make(self, rng: Random, number: int) -> Forgery:
        own = base(number % BASES)
        other = base(number % BASES // len(KINDS) * len(KINDS) + int(rng.integers(len(KINDS))))
        if rng.random() < 0.05:  # a certificate about another network, which says that it is about this one
            hash_ = {"network": np.array(own.case.network.sha256, dtype="U64")}
            return Forgery(own, forged(rng, other.arrays | hash_, own.arrays), number)
        return Forgery(own, forged(rng, own.arrays, other.arrays), number)

    def judge(self, case: Forgery) -> Verdict:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "forged.npz"
            np.savez(path, allow_pickle=False, **case.arrays)
            try:
                verdict = self._checked(path, case)
            except lipcert.LipcertError as error:
                many = "\n" in str(error)
                verdict = Verdict(["refused"], fault="many lines" * many, detail=str(error)[:200])
            if case.number % COMMAND == 0 and not verdict.fault and str(case.arrays.get("kind")) != "polynomial":
                verdict.fault = "command line"
                verdict.detail = _commanded(path, case, verdict.counts[0])
                verdict.fault *= bool(verdict.detail)
        return verdict

    def _checked(self, path: Path, case: Forgery) -> Verdict:
        """The proved number beside the attained one."""
        own, verdict = case.base, Verdict()
        judge = JUDGES.get(str(case.arrays.get("kind", "")))
        if judge is not None:
            return _judged(judge(path, own.case), judge.__name__.removeprefix("judge_"))
        certificate = load_certificate(path)
        answer = verify(certificate, own.case.network)
        verdict.counts.append(f"{'' if answer.proved else 'not '}proved {case.arrays.get('proof', '')!s}")
        seen, region = self._attained(certificate, own), certificate.region
        if isinstance(region, Polytope):
            points = points_of(np.random.default_rng(own.case.seed), region, region.size, 24)
            if not np.all(inside(region.box, points)):
                verdict.fault, verdict.detail = "box too small", "a point of the region lies outside"
        if np.isnan(answer.upper) or (answer.proved and not certificate.claim >= seen):
            verdict.fault = "proves too much"
            verdict.detail = f"{certificate.claim!r} ({answer.upper!r}), but {seen!r} is attained"
        return verdict

    def _attained(self, certificate: Certificate, own: Base) -> float:
        """A lower limit on the region and in the norm of the certificate; 0 where the oracle has no answer."""
        case, seen, asked = own.case, attained(certificate, own.case), asked_by(certificate, own.case)
        c = asked.c
        same = asked.region == case.region and asked.p == case.p and asked.q == case.q
        same = same and (c is case.c or (c is not None and case.c is not None and np.array_equal(c, case.c)))
        return max(seen, own.attained * (1 - 1e-9)) if same else seen

    def smaller(self, case: Forgery) -> Iterator[Forgery]:
        """With honest arrays again, one after the other, and honest numbers in those that are left."""
        honest = case.base.arrays
        for name, values in case.arrays.items():
            if name not in honest or values is honest[name]:
                continue
            yield replace(case, arrays=case.arrays | {name: honest[name]})
            if values.shape == honest[name].shape and values.size > 1:
                for half in np.array_split(np.arange(values.size), 2):
                    mixed = np.array(values).reshape(-1)
                    if np.array_equal(mixed[half], honest[name].reshape(-1)[half]):
                        continue
                    mixed[half] = honest[name].reshape(-1)[half]
                    yield replace(case, arrays=case.arrays | {name: mixed.reshape(values.shape)})
        for name in honest.keys() - case.arrays.keys():
            yield replace(case, arrays=case.arrays | {name: honest[name]})

    def save(self, case: Forgery, stem: Path) -> dict[str, Any]:
        own = case.base
        about = own.case.save(stem)
        np.savez(stem.with_name(stem.name + "-certificate.npz"), allow_pickle=False, **case.arrays)
        return about | {"attained": own.attained, "verify": f"{stem.name}-certificate.npz, about {stem.name}.npz"}

    def load(self, stem: Path, about: dict[str, Any]) -> Forgery:
        with np.load(stem.with_name(stem.name + "-certificate.npz"), allow_pickle=False) as stored:
            arrays = dict(stored)
        return Forgery(Base(Case.load(stem, about), {}, about["attained"]), arrays)
