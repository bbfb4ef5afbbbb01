"""The second checker, in ball arithmetic: the same verdicts from other formulas."""

from __future__ import annotations

import dataclasses
import importlib
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from lipcert import Affine, Box, Everywhere, InputError, Network
from lipcert.method.solving import Task
from lipcert.problem.problem import Problem
from lipcert.problem.region import Region
from lipcert.proof.balls import check_with_balls
from lipcert.proof.balls.numbers import is_positive_definite
from lipcert.proof.verify import verify
from tests.balls import check_from_formulas
from tests.forging import asking
from tests.one_layer_tools import Case, changed, exact, one_layer_cases, proof_of, random_case, solved, weights
from tests.problems import AROUND_7

METHODS = ("hr2", "shor")


@pytest.fixture(autouse=True)
def _needs_flint() -> None:
    pytest.importorskip("flint", reason="python-flint is not installed; pip install 'lipcert[exact]'")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("seed", "p0", "p1", "radius", "alpha"),
    [(0, 5, 5, 0.3, 0.0), (1, 5, 8, 1.0, 0.2), (2, 7, 5, 0.1, 0.0), (3, 10, 10, 10.0, 0.01), (4, 40, 30, 0.1, 0.0)],
)
def test_both_checkers_agree(method: str, seed: int, p0: int, p1: int, radius: float, alpha: float) -> None:
    net, box, c = random_case(seed, p0, p1, radius, alpha)
    regions: list[Region] = [box, Everywhere()]
    for region in regions:
        for certificate in (solved(net, region, c, method), solved(net, box, c, "hr2", chords=False)):
            for check in (check_with_balls, check_from_formulas):
                assert check(certificate, net) == pytest.approx(certificate.upper, rel=1e-9)


@settings(max_examples=18)
@given(one_layer_cases(max_inputs=3, max_neurons=4))
def test_both_checkers_agree_on_odd_networks(case: Case) -> None:
    """Copies, zeros, dead neurons, flat boxes; good multipliers and none at all."""
    net, region, c = case
    true = exact(net, region, c)
    for method in METHODS:
        certificate = solved(net, region, c, method)
        for check in (check_with_balls, check_from_formulas):
            second = check(certificate, net)
            assert second >= true * (1 - 1e-9)
            assert second == pytest.approx(certificate.upper, rel=1e-9, abs=1e-12)
        task = Task.of(Problem.of(net, region, c), method)
        lazy = task.prove(np.zeros(task.relaxation.problem.rows))
        for check in (check_with_balls, check_from_formulas):
            assert check(lazy, net) == pytest.approx(lazy.upper, rel=1e-9, abs=1e-12)


def test_scales_of_rows_are_shared() -> None:
    net, box, c = random_case(5, 4, 6, 0.5)
    A, b, w = weights(net, c)
    s = 10.0 ** np.array([-9, 9, -4, 4, 0, 2])
    other = Network((Affine(A * s[:, None], b * s), Affine((w / s)[None, :], np.zeros(1))), net.activations)
    for method in METHODS:
        certificate = solved(other, box, c, method)
        for check in (check_with_balls, check_from_formulas):
            assert check(certificate, other) == pytest.approx(certificate.upper, rel=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_forgeries_are_refused_by_both(method: str) -> None:
    net, box, c = random_case(6, 3, 4, 0.6)
    honest = solved(net, box, c, method)
    proof = proof_of(honest)
    rng = np.random.default_rng(0)
    true, refused = exact(net, box, c), 0
    names = [("multipliers", name) for name in proof.multipliers] + [("shift", name) for name in proof.shift]
    for k in range(300):
        part, name = names[k % len(names)]
        values = np.array(getattr(proof, part)[name])
        used = np.flatnonzero(values)  # the others belong to stable neurons: the first checker never looks at them
        if not len(used):
            continue
        values[rng.choice(used)] += rng.choice([-1.0, 1.0]) * 10.0 ** rng.uniform(-12, 0)
        forged = changed(honest, **{part: {**getattr(proof, part), name: values}})
        first = verify(forged, net).upper
        for second in (check_with_balls(forged, net), check_from_formulas(forged, net)):
            assert second >= true * (1 - 1e-9)
            refused += math.isinf(second)
            if math.isfinite(first):  # a second opinion may lift the diagonal a little; it never refuses what is proved
                assert second == pytest.approx(first, rel=1e-8)
    assert 60 < refused < 600


def test_other_claims() -> None:
    net, box, c = AROUND_7.case
    honest = solved(net, box, c, "hr2")
    proof = proof_of(honest)
    changes: list[dict[str, Any]] = [
        {"network": "0" * 64},
        {"c": np.ones(2)},
        {"region": Box(np.zeros(2), 1.0)},
        {"region": Everywhere()},
        {"region": Box(box.center, 5.0)},
        {"c": 100 * c},
        {"proof": dataclasses.replace(proof, multipliers={**proof.multipliers, "y^2 = 1": np.ones(3)})},
        {"proof": dataclasses.replace(proof, multipliers={**proof.multipliers, "t^2 = 1": np.ones(2)})},
        {"proof": dataclasses.replace(proof, multipliers={**proof.multipliers, "w^2 <= 1": -np.ones(3)})},
        {"proof": dataclasses.replace(proof, shift={**proof.shift, "t": np.full(3, np.nan)})},
        {"proof": dataclasses.replace(proof, shift={**proof.shift, "t": -np.ones(3)})},
    ]
    for change in changes:
        forged = dataclasses.replace(honest, **change) if "proof" in change else asking(honest, **change)
        assert math.isinf(check_with_balls(forged, net)), change
        assert math.isinf(check_from_formulas(forged, net)), change


def test_balls_decide_not_their_middles() -> None:
    """A matrix whose middle is definite and whose balls are not, and a singular one that Cholesky lets pass."""
    flint = importlib.import_module("flint")
    definite = flint.arb_mat([[2, 1], [1, 2]])
    assert is_positive_definite(definite)
    assert is_positive_definite(flint.arb_mat([[flint.arb(2, 0.5), 1], [1, 2]]))
    assert not is_positive_definite(flint.arb_mat([[flint.arb(2, 1.75), 1], [1, 2]]))
    assert not is_positive_definite(flint.arb_mat([[1, 2], [2, 1]]))
    with flint.ctx.workprec(128):
        third = flint.arb(1) / 3
        below = flint.arb_mat([[1, third], [third, third * third - flint.arb(2) ** -80]])
        above = flint.arb_mat([[1, third], [third, third * third + flint.arb(2) ** -20]])
        assert not is_positive_definite(below)
        assert is_positive_definite(above)


def test_missing_flint_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    net, box, c = AROUND_7.case
    certificate = solved(net, box, c, "hr2")

    def absent(name: str, *_: object) -> object:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(InputError, match=r"pip install '(\.|lipcert)\[exact\]'"):
        check_with_balls(certificate, net)
