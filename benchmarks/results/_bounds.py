"""Cases of networks: first bounds, relaxations, known constants, branch and bound, brackets against time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import numpy as np
from tests.enumeration import exact_constant

from benchmarks import _networks
from benchmarks._networks import CASES, Made, he_normal, sdp_nn
from benchmarks._rows import Measured
from benchmarks.results._case import BOTH, DATA, ONLY_FULL, Case, Question, Stopwatch, bracket
from lipcert.budget import Budget
from lipcert.problem.problem import Problem
from lipcert.problem.region import Box
from lipcert.witness import search

CHEAP = ("product", "interval", "linear", "mixed", "slopes")
ENOUGH = 600.0  # counted work for what ends by itself
RECIPES = (
    "(80,80) local",
    "tutorial",
    "sigmoid 20-40-40",
    "tanh 4-30-30-30",
    "leaky 30-40-40",
    "deep 10-8x16",
    "residual 12-24x6",
)


def paper(size: int, sparsity: int, seed: int, region: str, layers: int = 1) -> Question:
    """One of the paper's random networks."""
    shape = f"({size},{size}{',10' if layers == 2 else ''})"
    return Question(
        f"{shape} s={sparsity} seed {seed}, {region}", _networks.paper(size, sparsity, seed, region, layers)
    )


def _wide() -> Made:
    center = np.random.default_rng(1).uniform(size=784)
    return he_normal((784, 100, 100, 10)), Box(center, 0.01), (0, 1), "inf"


def named(name: str) -> Question:
    """A network of `benchmarks._networks`."""
    return Question(name, next(c for c in CASES if c.name == name).make)


LOCAL80, GLOBAL40 = paper(80, 80, 0, "local"), paper(40, 40, 0, "global", 2)
WIDE = Question("784-100-100-10 He-normal", _wide)


def first(question: Question) -> Iterable[Measured]:
    """Methods that hardly need a solver, without a search for a witness; `slopes` gets counted work 5."""
    for method in CHEAP:
        yield bracket(question, method, 5.0, lower=False)


def one(question: Question, method: str, work: float, **how: bool) -> Iterable[Measured]:
    yield bracket(question, method, work, lower=False, **how)


def witness(question: Question, work: float) -> Iterable[Measured]:
    """A lower bound to hold the others against, by the search alone."""
    net, region, output, norm = question.make()
    watch, budget = Stopwatch(), Budget.of_work(work)
    found = search(Problem.of(net, region, output, norm), budget)
    yield Measured(
        question.network,
        "search",
        region.words,
        norm,
        found.value,
        limit=f"work {work:g}",
        work=budget.spent().counted,
        wall=watch.wall,
        cpu=watch.cpu,
        facts={"by": found.method},
    )


def tightness(seed: int, region: str) -> Iterable[Measured]:
    """The constant by enumeration, then methods beside it."""
    question = paper(10, 20, seed, region)
    net, box, _, _ = question.make()
    assert isinstance(box, Box)
    known = exact_constant(net, box, np.ones(1))
    for method in ("interval", "linear", "hr2", "tight", "exact"):
        yield bracket(question, method, 60.0, known=known, lower=method == "exact")


def alone(question: Question, method: str, work: float, gap: float = 0.0) -> Iterable[Measured]:
    yield bracket(question, method, work, gap=gap)


def anytime(name: str) -> Iterable[Measured]:
    """`auto` with counted work 60; where a bound of auto_LiRPA 0.7.1 was recorded for the question it stands beside."""
    ours, case = bracket(named(name), "auto", 60.0), next(c for c in CASES if c.name == name)
    recorded = None if case.peer is None else "auto_LiRPA 0.7.1 (recorded)"
    yield replace(
        ours,
        peer=recorded,
        peer_value=case.peer,
        peer_seconds=case.peer_seconds,
        peer_proof=None if recorded is None else False,
    )


def _first() -> list[Case]:
    questions = [LOCAL80, *(named(n) for n in RECIPES[1:]), GLOBAL40, WIDE]
    made = [Case(f"first/{q.network}", "first", partial(first, q)) for q in questions]
    real = [c.name for c in CASES if c.name not in RECIPES]
    return made + [Case(f"first/{n}", "first", partial(first, named(n)), ONLY_FULL, (DATA,)) for n in real]


def _relaxations() -> list[Case]:
    quick = [
        (LOCAL80, ("shor", "hr2"), ENOUGH),
        (LOCAL80, ("tight",), 20.0),
        (GLOBAL40, ("backward", "forward", "both", "backward-free"), ENOUGH),
        (GLOBAL40, ("tight",), 20.0),
        (WIDE, ("backward-free",), ENOUGH),
    ]
    full = [
        (LOCAL80, ("lipopt3",), ENOUGH),
        (GLOBAL40, ("lipopt3", "hr1"), ENOUGH),
        (WIDE, ("both-free", "backward", "forward", "both"), ENOUGH),
        (WIDE, ("tight",), 120.0),
    ]
    cases = [
        Case(f"relaxations/{q.network}/{m}", "relaxations", partial(one, q, m, work), sets)
        for table, sets in ((quick, BOTH), (full, ONLY_FULL))
        for q, methods, work in table
        for m in methods
    ]
    literal = partial(one, LOCAL80, "hr2", 300.0, literal=True)
    cases.append(Case(f"relaxations/{LOCAL80.network}/hr2 literal", "relaxations", literal, ONLY_FULL))
    cases += _tight_in_full() + _trained()
    searches = [
        Case(f"relaxations/{q.network}/search", "relaxations", partial(witness, q, 5.0))
        for q in (LOCAL80, GLOBAL40, WIDE)
    ]
    return searches + cases


def _tight_in_full() -> list[Case]:
    """`tight` on the paper's two hidden layers and on (80,80), with a search beside each, in counted work 120 and 5."""
    questions = [paper(40, s, 0, "global", 2) for s in (20, 60, 80)]
    questions += [paper(80, 80, seed, region) for region in ("local", "global") for seed in range(3)]
    questions.remove(next(q for q in questions if q.network == LOCAL80.network))  # in the quick set
    name = "relaxations/{}/{}".format
    cases = [Case(name(q.network, "search"), "relaxations", partial(witness, q, 5.0), ONLY_FULL) for q in questions]
    return cases + [
        Case(name(q.network, "tight"), "relaxations", partial(one, q, "tight", 120.0), ONLY_FULL) for q in questions
    ]


def _trained() -> list[Case]:
    """The paper's trained network (784,500) on its two boxes."""
    near, far = "SDP-NN 0.1", "SDP-NN 10"
    table = ((near, "hr2", ENOUGH), (near, "tight", 300.0), (far, "shor", ENOUGH), (far, "tight", 120.0))
    cases = [
        Case(f"relaxations/{n}/{m}", "relaxations", partial(one, _sdp_nn(n), m, work), ONLY_FULL, (DATA,))
        for n, m, work in table
    ]
    return cases + [
        Case(f"relaxations/{n}/search", "relaxations", partial(witness, _sdp_nn(n), 15.0), ONLY_FULL, (DATA,))
        for n in (near, far)
    ]


def _sdp_nn(name: str) -> Question:
    return Question(name, sdp_nn(float(name.split()[-1])))


def _exact() -> list[Case]:
    small = [
        *(paper(20, 40, seed, "local") for seed in range(3)),
        paper(20, 40, 0, "global"),
        paper(10, 20, 0, "local", 2),
    ]
    more = [paper(20, 40, seed, region) for region in ("local", "global") for seed in range(10)]
    more += [paper(10, 20, seed, "local", 2) for seed in range(1, 10)]
    cases: dict[str, Case] = {}
    for questions, sets in ((small, BOTH), (more, ONLY_FULL)):
        for q in questions:
            name = f"exact/{q.network}"
            cases.setdefault(name, Case(name, "exact", partial(alone, q, "exact", ENOUGH), sets))
    forty = [paper(40, 80, seed, "local") for seed in range(3)]
    for q in forty:
        name = f"exact/{q.network}/gap 2 %"
        cases[name] = Case(name, "exact", partial(alone, q, "exact", ENOUGH, 0.02), ONLY_FULL)
    return list(cases.values())


def _anytime() -> list[Case]:
    made = [Case(f"anytime/{n}", "anytime", partial(anytime, n)) for n in RECIPES]
    real = [c.name for c in CASES if c.name not in RECIPES]
    return made + [Case(f"anytime/{n}", "anytime", partial(anytime, n), ONLY_FULL, (DATA,)) for n in real]


def cases() -> list[Case]:
    known = [
        Case(f"tightness/(10,10) {region} seed {seed}", "tightness", partial(tightness, seed, region))
        for region in ("local", "global")
        for seed in range(10)
    ]
    return [*_first(), *_relaxations(), *known, *_exact(), *_anytime()]
