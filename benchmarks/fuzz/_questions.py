"""Certificates that are about more than one constant, honest ones and what the oracle says of a file that is proved.

Entries of a Jacobian, cells of a partition, several regions, margins, and bounds of polynomials. What a file asks is
read from the file; whatever of it is proved must be true at points that the oracle makes itself.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import lipcert
from benchmarks.fuzz._cuts import inside
from benchmarks.fuzz._edits import Arrays
from benchmarks.fuzz._oracle import ROUNDING, SLACK, floor, forward, jacobians, norms_at, points_of
from benchmarks.fuzz._problems import NORMS, Case, Random, random_network
from benchmarks.polynomial_attack import best_value, exceeds
from benchmarks.polynomial_attack import random_case as random_polynomial_case
from lipcert import Box, Network, PolynomialProblem, verify_polynomial
from lipcert.polynomial.certificates.certificate import PolynomialCertificate
from lipcert.polynomial.hierarchy.solve import solve_problem
from lipcert.problem.frame import Frame
from lipcert.problem.problem import Problem
from lipcert.proof import Certificate
from lipcert.proof.file import load_certificate
from lipcert.proof.jacobian import JacobianCertificate
from lipcert.proof.margins import (
    MarginCertificate,
    MarginProof,
    certificate_of,
    linear_margins,
    prove_margin,
)
from lipcert.proof.partition import PartitionCertificate
from lipcert.proof.tree import Tree
from lipcert.proof.union import UnionCertificate
from lipcert.relaxation.margin import applies, margin
from lipcert.rounding import Array
from lipcert.solver.rank_two import Options, solve_rank_two

WORK, CELLS = 0.02, 24
TELLING = 1e-6  # a gradient that is seen at least, so that a boast is one
LEAVES = 40  # boxes of a partition that are looked at


@dataclass(frozen=True)
class Answer:
    """Whether a file was proved, and the reasons why it should not be."""

    proved: bool
    fault: str = ""


def attained(certificate: Certificate, case: Case) -> float:
    """A lower limit on the region and in the norm of a certificate; 0 where the oracle has no answer."""
    net, region = case.network, certificate.region
    if certificate.coordinate is not None or certificate.c.shape[-1] != net.outputs:
        return 0.0
    if not isinstance(region, lipcert.Everywhere) and region.size != net.inputs:
        return 0.0
    if certificate.frame is not None:
        return _weighted(certificate, certificate.frame, case)
    return floor(asked_by(certificate, case), np.random.default_rng(case.seed))


def _weighted(certificate: Certificate, frame: Frame, case: Case) -> float:
    """The same where single inputs have weights, or some of them stay; nothing for matrices."""
    net, own, some = case.network, frame.input_weights, frame.inputs
    fits = own is None or (own.shape == (net.inputs,) and bool(np.all(own > 0)))
    if not fits or frame.output_weights is not None or (some is not None and np.any(some >= net.inputs)):
        return 0.0
    weights = np.full(net.inputs, np.inf)
    changed = np.arange(net.inputs) if some is None else some
    weights[changed] = 1.0 if own is None else own[changed]
    points = points_of(np.random.default_rng(case.seed), certificate.region, net.inputs)
    return float(norms_at(asked_by(certificate, case), points, weights).max(initial=0.0))


def asked_by(certificate: Certificate, case: Case) -> Case:
    """The question of a certificate."""
    c = None if certificate.norm.out is not None else certificate.c
    return replace(case, region=certificate.region, c=c, p=certificate.norm.p, q=certificate.norm.out)


# Entries of a Jacobian.


def make_jacobian(rng: Random, case: Case) -> Arrays:
    some = [int(k) for k in rng.permutation(case.network.inputs)[: int(rng.integers(1, case.network.inputs + 1))]]
    found = lipcert.jacobian(case.network, case.region, inputs=some, gap=0.05, work=WORK, max_cells=CELLS)
    return found.certificate.arrays()


def judge_jacobian(path: Path, case: Case) -> Answer:
    kept = load_certificate(path, JacobianCertificate)
    if not kept.verify(case.network).proved:
        return Answer(False)
    rng, entries = np.random.default_rng(case.seed), np.ix_(kept.scores, kept.inputs)
    J, off, size = jacobians(case, points_of(rng, kept.region, case.network.inputs))
    J, price = J[off][:, kept.scores][:, :, kept.inputs], ROUNDING * size[entries]
    slack = SLACK * np.abs(J) + price
    if np.any((kept.claims.lo - slack > J) | (kept.claims.hi + slack < J)):
        return Answer(True, "an entry lies outside of its claim")
    if not np.all(inside(kept.region, kept.points)):
        return Answer(True, "a point lies outside of the region")
    if not len(kept.points):
        return Answer(True)
    own, off, _ = jacobians(case, kept.points)
    for at, seen, sign in zip(kept.at, kept.seen, (-1.0, 1.0), strict=True):
        here = own[at, kept.scores[:, None], kept.inputs]
        sure = (at >= 0) & off[at] & np.isfinite(here)
        if np.any(sure & (sign * here < sign * seen - SLACK * np.abs(here) - price)):
            return Answer(True, "a value is not seen at its point")
    return Answer(True)


# Cells of a partition.


def make_partition(rng: Random, case: Case) -> Arrays:
    assert isinstance(case.region, Box)
    cells = None if rng.random() < 0.5 else int(rng.integers(1, 3))
    gap = 0.1 if cells is None or rng.random() < 0.5 else None
    about: dict[str, Any] = {"output": case.problem().output, "norm": case.p, "output_norm": case.q}
    found = lipcert.partition(case.network, case.region, cells=cells, gap=gap, **about, work=WORK, max_cells=CELLS)
    return found.certificate.arrays()


def judge_partition(path: Path, case: Case) -> Answer:
    kept = load_certificate(path, PartitionCertificate)
    if not kept.verify(case.network).proved:
        return Answer(False)
    if not _reaches(kept.cover, kept.region):
        return Answer(True, "the cells do not cover the region")
    if kept.question.frame is not None:
        return Answer(True)
    rng, c = np.random.default_rng(case.seed), None if kept.question.norm.out is not None else kept.question.c
    asked = replace(case, region=kept.region, c=c, p=kept.question.norm.p, q=kept.question.norm.out)
    for _ in range(LEAVES):
        root, leaf, box = _some_leaf(rng, kept.cover)
        if box is None:
            return Answer(True, f"cell {leaf} has ends that lie beyond each other")
        seen = norms_at(asked, points_of(rng, box, box.size, 8)).max(initial=0.0)
        claim = kept.claims[root if kept.of_grid else leaf]
        if not claim >= seen:
            return Answer(True, f"cell {leaf} has the claim {claim!r}, but {seen!r} is attained")
    return Answer(True)


def _reaches(cover: Tree, region: Box) -> bool:
    """Whether the edges of the grid go from end to end, without a step back."""
    assert cover.grid is not None
    ends = zip(cover.grid.edges, region.lo, region.hi, strict=True)
    return all(e[0] == lo and e[-1] == hi and bool(np.all(np.diff(e) >= 0)) for e, lo, hi in ends)


def _some_leaf(rng: Random, cover: Tree) -> tuple[int, int, Box | None]:
    """A cell of the grid, a leaf in it (their numbers) and its box, by the letter of what a file says."""
    assert cover.grid is not None
    edges = cover.grid.edges
    place = [int(rng.integers(len(e) - 1)) for e in edges]
    lo = np.array([e[k] for e, k in zip(edges, place, strict=True)])
    hi = np.array([e[k + 1] for e, k in zip(edges, place, strict=True)])
    roots, root = 1, 0
    for k, e in zip(place, edges, strict=True):  # the last coordinate fastest
        root, roots = root * (len(e) - 1) + k, roots * (len(e) - 1)
    node = root
    while (j := int(cover.where[node])) >= 0:
        above = int(rng.integers(2))
        (lo if above else hi)[j] = cover.value[node]
        node = roots + 2 * int(np.sum(cover.where[:node] >= 0)) + above
    return root, int(np.sum(cover.where[:node] < 0)), Box.from_bounds(lo, hi) if np.all(lo <= hi) else None


# Several regions.


def make_union(rng: Random, case: Case) -> Arrays:
    assert isinstance(case.region, Box)
    away = [Box(case.region.center + rng.normal(size=case.region.size), case.region.radius) for _ in range(2)]
    method = "linear" if case.c is None or rng.random() < 0.5 else "auto"
    about: dict[str, Any] = {"output": case.problem().output, "norm": case.p, "output_norm": case.q}
    found = lipcert.bound_union(case.network, [case.region, *away], **about, method=method, work=WORK)
    return dict(found.certificate.arrays())


def judge_union(path: Path, case: Case) -> Answer:
    kept = load_certificate(path, UnionCertificate)
    if not kept.verify(case.network).proved:
        return Answer(False)
    first = kept.parts[0]
    for k, part in enumerate(kept.parts):
        if part.norm != first.norm or not np.array_equal(part.c, first.c) or part.coordinate != first.coordinate:
            return Answer(True, f"region {k} has another question")
        seen = attained(part, case)
        if not min(part.claim, kept.claim) >= seen:
            return Answer(True, f"region {k} has the claim {part.claim!r}, but {seen!r} is attained")
    return Answer(True)


# Margins.


def make_margins(rng: Random, case: Case) -> Arrays:
    net, box = case.network, case.region
    assert isinstance(box, Box)
    proofs = []
    for c in rng.normal(size=(3, net.outputs)):
        if rng.random() < 0.5 and applies(net):
            keep = int(rng.integers(1, 4))
            asked = margin(Problem.of(net, box, c), keep)
            y = solve_rank_two(asked.relaxation.problem, Options(iterations=12)).y
            proofs.append(prove_margin(asked, c, keep, y))
        else:
            proofs.append(MarginProof(c, float(linear_margins(net, box, c[None])[1][0])))
    with np.load(io.BytesIO(certificate_of(net, box, tuple(proofs)).to_bytes()), allow_pickle=False) as stored:
        return dict(stored)


def judge_margins(path: Path, case: Case) -> Answer:
    kept = load_certificate(path, MarginCertificate)
    if not kept.verify(case.network).proved:
        return Answer(False)
    values, size = forward(case.network, points_of(np.random.default_rng(case.seed), kept.region, kept.region.size))
    for proof, claim in zip(kept.proofs, kept.claims, strict=True):
        seen = values @ proof.c
        slack = SLACK * np.abs(seen) + ROUNDING * size @ np.abs(proof.c)
        if np.any(seen > claim + slack):
            return Answer(True, f"the margin {claim!r} is exceeded: {seen.max()!r}")
    return Answer(True)


# Polynomial problems: the number of a case says which.


@cache
def polynomial(seed: int) -> tuple[PolynomialProblem, Fraction | None]:
    """A problem, and the best value of a point that is feasible exactly."""
    made = random_polynomial_case(seed)
    return made.problem, best_value(made.problem, made.points)


def make_polynomial(_: Random, case: Case) -> Arrays:
    problem, best = polynomial(case.seed)
    found = solve_problem(problem).certificate
    if found is None or best is None or not np.isfinite(found.bound):
        raise lipcert.MethodError("no proof, or no point to compare it with")
    return found.arrays()


def judge_polynomial(path: Path, case: Case) -> Answer:
    problem, best = polynomial(case.seed)
    kept = load_certificate(path, PolynomialCertificate)
    answer = verify_polynomial(kept, problem)
    if answer.proved and (exceeds(kept.bound, problem, best) or exceeds(answer.bound, problem, best)):
        return Answer(True, f"{kept.bound!r} ({answer.bound!r}), but {float(best or 0)!r} is attained")
    return Answer(answer.proved)


MAKERS: dict[str, Callable[[Random, Case], Arrays]] = {
    "jacobian": make_jacobian,
    "partition": make_partition,
    "union": make_union,
    "margins": make_margins,
    "polynomial": make_polynomial,
}
JUDGES: dict[str, Callable[[Path, Case], Answer]] = {  # by the kind that a file says
    "jacobian": judge_jacobian,
    "cells": judge_partition,
    "union": judge_union,
    "margins": judge_margins,
    "polynomial": judge_polynomial,
}


def question_case(rng: Random, index: int, kind: str) -> Case:
    """Small networks of any activation on boxes, not constant there; of a polynomial problem its number is all."""
    if kind == "polynomial":
        return Case(Network.from_weights([np.ones((1, 1))]), Box([0.0], 1.0), np.ones(1), "inf", None, index)
    while True:
        net = random_network(rng, 2, 4)
        region = Box(rng.normal(size=net.inputs), 10.0 ** rng.uniform(-1, 0.3))
        c: Array | None = rng.normal(size=net.outputs) if rng.random() < 0.7 or kind == "margins" else None
        p, q = (str(rng.choice(NORMS)) for _ in range(2))
        case = Case(net, region, c, p, q if c is None else None, index)
        if floor(case, rng) > TELLING:
            return case
