"""Certificates of every kind of proof on small networks, for both checkers; most are made without a solver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise, product

import numpy as np

import lipcert
from lipcert import Activation, Ball, Box, Certificate, Everywhere, Network
from lipcert.bounds import Split, bounds_of, halves, whole
from lipcert.bounds.collapse import collapse
from lipcert.problem.problem import Problem
from lipcert.problem.region import Region
from lipcert.proof.arithmetic import prove_interval, prove_linear, prove_mixed, prove_product
from lipcert.proof.cases import ProvedCase, case_of, case_table, prove_cases
from lipcert.proof.file import read_constant
from lipcert.proof.leaves import BY_INTERVALS, BY_LINES, problem_on, prove_leaf
from lipcert.proof.multipliers import prove_multipliers, prove_relaxed
from lipcert.proof.sharpened import prove_within
from lipcert.proof.slopes import Slopes, prove_part
from lipcert.relaxation.slopes import SlopeMultipliers, SlopeProgram, slope_program
from lipcert.relaxation.specification import Specification, build
from tests.trees import mended, signs_of, tree_of

SAME = 1e-5  # relative: where both checkers have the same formulas; a spectral norm is proved with 1e-6 of room
ARITHMETIC = {"product": prove_product, "interval": prove_interval, "linear": prove_linear, "mixed": prove_mixed}
NORMS = (("inf", None), ("1", None), ("2", None), ("2", "2"), ("inf", "1"), ("1", "inf"), ("inf", "2"))


@dataclass(frozen=True, eq=False)
class Entry:
    """A certificate with its network; `far` is how much smaller the balls' bound may be: some formulas are better."""

    name: str
    net: Network
    certificate: Certificate
    far: float = SAME

    @property
    def problem(self) -> Problem:
        c = self.certificate
        return Problem(self.net, c.region, c.norm, lipcert.problem.output.output_of(c.c), c.coordinate)


def small_net(*shape: int, kind: str = "relu", alpha: float = 0.0, seed: int = 0) -> Network:
    """Random weights of about the same gain in every layer."""
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=(b, a)) / np.sqrt(a) for a, b in pairwise(shape)]
    biases = [0.3 * rng.normal(size=b) for b in shape[1:]]
    return Network.from_weights(weights, biases, Activation(kind, alpha))


def problem_of(net: Network, region: Region, p: str = "inf", q: str | None = None) -> Problem:
    """The first score, or all of them where a norm of outputs is given."""
    return Problem.of(net, region, 0 if q is None else "all", p, q)


def arithmetic(step: int = 1) -> Iterator[Entry]:
    """All methods that need no numbers, on all regions, in all norms: every `step`-th of them."""
    kinds = ("relu", "tanh", "leaky_relu", "gelu")
    nets = {kind: small_net(2, 3, 3, 2, kind=kind, alpha=0.2, seed=seed) for seed, kind in enumerate(kinds)}
    regions: tuple[Region, ...] = (Box(np.zeros(2), 0.4), Ball(np.full(2, 0.2), 0.5), Everywhere())
    every = list(product(kinds, regions, NORMS, ARITHMETIC))
    for kind, region, (p, q), method in every[::step]:
        better = method in ("interval", "linear") and (q is not None or kind in ("tanh", "gelu"))
        name = f"{method} {kind} {type(region).__name__} {p} {q}"
        certificate = ARITHMETIC[method](problem_of(nets[kind], region, p, q))
        yield Entry(name, nets[kind], certificate, 0.4 if better else SAME)


def relaxed(step: int = 1) -> Iterator[Entry]:
    """Multipliers that nobody solved for, in several forms: the shift alone proves a bound. And cases of norm 1."""
    net, deep = small_net(3, 4, 1), small_net(3, 4, 3, 2, seed=1)
    for form in ("shor", "hr2"):
        yield Entry(form, net, _relaxed(problem_of(net, Box(np.zeros(3), 0.4)), form))
    norms = (("inf", None), ("2", None), ("2", "2"))
    for form, (p, q) in list(product(("backward", "forward", "both"), norms))[::step]:
        problem = problem_of(deep, Box(np.zeros(3), 0.4), p, q)
        yield Entry(f"{form} {p} {q}", deep, _relaxed(problem, form))
    problem = problem_of(deep, Box(np.zeros(3), 0.4), "1")
    table, parts = case_table(problem), []
    for column in (0, 2):
        case = case_of(problem, 0, column)
        spec = Specification("tight", "backward")
        relaxation = build(case, spec)
        proof, upper = prove_multipliers(spec, relaxation, np.zeros(len(relaxation.problem.rhs)))
        parts.append(ProvedCase(0, column, proof, upper))
    yield Entry("cases", deep, prove_cases(problem, "tight", table, tuple(parts)))


def _relaxed(problem: Problem, form: str) -> Certificate:
    specification = Specification("tight" if form not in ("shor", "hr2") else form, form)
    relaxation = build(problem, specification)
    guess = np.where(relaxation.problem.equality, 0.1, 0.01)
    return prove_relaxed(problem, specification, relaxation, guess)


def slopes(step: int = 1) -> Iterator[Entry]:
    """One multiplier for every neuron, all alike; also of narrow slopes, of cases, and of the whole map."""
    regions: tuple[tuple[str, Region], ...] = (
        ("relu", Everywhere()),
        ("tanh", Box(np.zeros(3), 0.05)),
        ("relu", Box(np.zeros(3), 0.3)),
    )
    norms = (("2", None), ("inf", None), ("2", "2"), ("2", "1"), ("1", None))
    for (kind, region), (p, q) in list(product(regions, norms))[::step]:
        net = small_net(3, 4, 3, 2, kind=kind, seed=3)
        problem = problem_of(net, region, p, q)
        program = slope_program(problem)
        part = prove_part(problem, program, even(program))
        yield Entry(f"slopes {kind} {p} {q}", net, Certificate.of(problem, Slopes((part,)), part.upper))


def even(program: SlopeProgram) -> SlopeMultipliers:
    """Multipliers that fall from block to block, so that what is eliminated is positive."""
    neurons = tuple(np.full(block.width, 0.05**k) for k, block in enumerate(program.blocks, start=1))
    return SlopeMultipliers(neurons, np.ones(program.inputs) if program.weighted else None)


def trees(step: int = 1) -> Iterator[Entry]:
    """Cells with signs and with cut boxes, leaves of all kinds but empty ones; sign patterns without refusals."""
    regions: tuple[Region, ...] = (Box(np.zeros(2), 0.8), Everywhere())
    for p, region, kind in list(product(("inf", "2"), regions, ("relu", "leaky_relu", "tanh")))[::step]:
        net = small_net(2, 3, 2, 1, kind=kind, alpha=0.2, seed=5)
        problem = problem_of(net, region, p)
        yield Entry(f"tree {kind} {type(region).__name__} {p}", net, _tree(problem, kind), 0.2)
    net = small_net(2, 4, 3, 2, seed=6)
    problem = problem_of(net, Box(np.zeros(2), 0.8))
    proof = signs_of(net, [(1, 0), (2, 1), (0, 0), (0, 0), (1, 2), (0, 0), (0, 0)])
    yield Entry("signs", net, Certificate.of(problem, proof, proof.check(problem)))


def _tree(problem: Problem, kind: str) -> Certificate:
    first = Split(0, 0, 0.1) if kind == "tanh" else Split(1, 0)
    if isinstance(problem.region, Everywhere) and kind == "tanh":
        proof = tree_of(problem.network, (None,), (BY_LINES,))
        return Certificate.of(problem, proof, proof.check(problem))
    lower = halves(whole(problem.network, problem.region), first)[0]
    own, signs = problem_on(problem, lower, bounds_of(problem.network, [lower]).of(0))
    specification = replace(Specification("tight", "backward"), signs=signs)
    relaxation = build(own, specification)
    leaf, _ = prove_leaf(specification, relaxation, np.zeros(len(relaxation.problem.rhs)))
    inner = Split(0, 1, -0.2) if isinstance(problem.region, Box) else Split(1, 1)
    proof = tree_of(problem.network, (first, None, inner, None, None), (leaf, BY_LINES, BY_INTERVALS))
    return Certificate.of(problem, proof, proof.check(problem))


def within(step: int = 1) -> Iterator[Entry]:
    """Proofs about the network of the open neurons."""
    norms, proofs = (("inf", None), ("2", "2")), (prove_interval, prove_linear)
    for kind, (p, q), prove in list(product(("relu", "leaky_relu"), norms, proofs))[::step]:
        net = small_net(3, 8, 7, 2, kind=kind, alpha=0.3, seed=7)
        problem = problem_of(net, Box(np.full(3, 0.1), 0.1), p, q)
        small = collapse(problem)
        assert small is not None
        certificate = prove_within(problem, prove(small.problem))
        yield Entry(f"within {kind} {p} {q}", net, certificate, SAME if q is None else 0.4)


def solved(step: int = 1) -> Iterator[Entry]:
    """By `bound`: signs with their refusals and sharper bounds, a tree with empty cells, a relaxation with cuts."""
    net = small_net(2, 4, 3, 2, seed=1)
    one = small_net(2, 3, 2, seed=2)
    asked: tuple[tuple[str, Network, Region, str], ...] = (
        ("signs", net, Box(np.zeros(2), 1.0), "exact"),
        ("cells", one, Everywhere(), "exact"),
        ("tight", one, Box(np.zeros(2), 1.0), "tight"),
    )
    for name, its, region, method in asked[::step]:
        result = lipcert.bound(its, region, method=method, output=0, work=0.1, lower=False)
        yield Entry(name, its, result.certificate)


FAMILIES: dict[str, Callable[[int], Iterator[Entry]]] = {
    "arithmetic": arithmetic,
    "relaxed": relaxed,
    "slopes": slopes,
    "trees": trees,
    "within": within,
    "solved": solved,
}


def a_gradient_norm(entry: Entry, count: int = 200) -> float:
    """The largest norm of a gradient (a Jacobian) at some points of the region: no bound may be below it."""
    problem, rng = entry.problem, np.random.default_rng(0)
    net, region = problem.network, problem.region
    points = rng.normal(size=(count, net.inputs))
    if not isinstance(region, Everywhere):
        box = region if isinstance(region, Box) else region.box
        points = region.project(rng.uniform(box.lo, box.hi, (count, net.inputs)))
        if isinstance(region, Ball):
            points = region.center + 0.999 * (points - region.center)
    rows = np.stack([net.gradient(points, c) for c in np.atleast_2d(problem.c)], axis=1)
    if problem.norm.out is None:
        return float(problem.norm.dual.of(rows[:, 0]).max())
    signs = np.sign(rng.normal(size=(64, net.inputs)))
    unit = {"inf": signs, "2": signs / np.sqrt(net.inputs), "1": np.eye(net.inputs)}[problem.norm.p]
    moved = np.einsum("koi,ti->kto", rows, unit)
    return float(problem.norm.outputs.of(moved).max())


def forged(entry: Entry, rng: np.random.Generator) -> Certificate | None:
    """The certificate as a file holds it, with one number of its proof changed."""
    arrays = dict(entry.certificate.arrays())
    stored = [name for name in ("numbers", "slope_numbers", "nogood_numbers", "sharpened_numbers") if name in arrays]
    stored = [name for name in stored if arrays[name].size]
    if not stored:
        return None
    name = stored[int(rng.integers(len(stored)))]
    values = arrays[name].copy()
    at = int(rng.integers(values.size))
    values[at] = rng.choice([-values[at], 0.0, 0.9 * values[at], 1.1 * values[at], np.nan])
    arrays |= {name: values}
    return read_constant(mended(arrays))
