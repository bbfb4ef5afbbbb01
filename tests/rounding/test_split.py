"""Semidefiniteness with a diagonal block eliminated: right at the edge, and no dearer than the whole matrix."""

from __future__ import annotations

from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from lipcert import Box
from lipcert.problem.problem import Problem
from lipcert.proof.multipliers import check, prove, sparse_slack
from lipcert.rounding import Array
from lipcert.rounding.definite import find_shift, is_positive
from lipcert.rounding.split import SplitMatrix, apart, split
from lipcert.solver.rank_two import solve_rank_two
from tests.lift_tools import built, deep_net


def bordered(rng: np.random.Generator, inner: int, outer: int, scale: float) -> Array:
    """[D, C; C', C'D^-1 C + nothing]: as singular as floats allow, with D of many sizes."""
    D = 10.0 ** rng.uniform(-3, 3, inner)
    C = rng.normal(size=(inner, outer)) * 10.0 ** rng.integers(-2, 3) * (rng.random((inner, outer)) < 0.8)
    M = (C.T / D) @ C
    S = np.block([[np.diag(D), C], [C.T, (M + M.T) / 2]])
    return np.asarray(S * scale)


def exactly_semidefinite(S: Array, shift: Array, error: Array) -> bool:
    """S + diag(shift) - diag(error) >= 0 in rational arithmetic, by symmetric elimination."""
    n = len(S)
    M = [[Fraction(S[i, j]) for j in range(n)] for i in range(n)]
    for i in range(n):
        M[i][i] += Fraction(shift[i]) - Fraction(error[i])
    for k in range(n):
        if M[k][k] < 0 or (M[k][k] == 0 and any(M[k][k + 1 :])):
            return False
        for i in range(k + 1, n) if M[k][k] else ():
            factor = M[i][k] / M[k][k]
            for j in range(k, n):
                M[i][j] -= factor * M[k][j]
    return True


def test_yes_is_true_at_the_edge() -> None:
    """Singular matrices moved by a few units in the last place."""
    rng = np.random.default_rng(0)
    said = {True: 0, False: 0}
    for _ in range(600):
        inner, outer = int(rng.integers(1, 6)), int(rng.integers(1, 4))
        S = bordered(rng, inner, outer, 1.0)
        size, n = float(np.abs(S).max()), inner + outer
        error = np.full(n, size * 10.0 ** rng.uniform(-18, -15) * float(rng.integers(0, 2)))
        shift = np.abs(rng.normal(size=n)) * size * 10.0 ** rng.uniform(-18, -12) * float(rng.integers(0, 3) > 0)
        answer = SplitMatrix(sp.csr_array(S), error, np.arange(inner)).positive(shift)
        said[answer] += 1
        assert not answer or exactly_semidefinite(S, shift, error)
    assert said[True] > 80
    assert said[False] > 80


@settings(max_examples=18)
@given(
    st.integers(0, 2**32 - 1), st.integers(8, 40), st.integers(1, 6), st.sampled_from((1e-200, 1e-6, 1.0, 1e8, 1e150))
)
def test_shift_is_small_and_proved_both_ways(seed: int, inner: int, outer: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    S, n = bordered(rng, inner, outer, scale), inner + outer
    with patch("lipcert.rounding.split.LEAST", 2):
        part = split(sp.csr_array(S), np.zeros(n))
    assert part is not None
    shift = part.shift()
    assert shift is not None
    assert part.positive(shift)
    assert shift.sum() <= 1e-10 * np.trace(S)
    assert np.linalg.eigvalsh((S + np.diag(shift)) / scale)[0] > -1e-12 * np.trace(S) / scale
    deep = S - np.diag(np.r_[np.zeros(inner), np.full(outer, 1e-6 * np.trace(S))])
    worse = SplitMatrix(sp.csr_array(deep), np.zeros(n), part.inner)
    assert worse.shift() is None  # more than rounding: the whole matrix decides how to pay for it
    assert not worse.positive(np.zeros(n))


def test_what_is_no_number_is_refused() -> None:
    S, none = bordered(np.random.default_rng(0), 6, 3, 1.0), np.zeros(9)
    S[np.diag_indices(9)] += 1.0
    good = SplitMatrix(sp.csr_array(S), none, np.arange(6))
    assert good.positive(none)
    for bad in (np.nan, np.inf, -np.inf):
        for place in (0, 8):
            shift = none.copy()
            shift[place] = bad
            assert not good.positive(shift)
            T = S.copy()
            T[place, 7] = T[7, place] = bad
            assert not SplitMatrix(sp.csr_array(T), none, np.arange(6)).positive(none)
            with patch("lipcert.rounding.split.LEAST", 2):
                assert split(sp.csr_array(T), none) is None
    assert not good.positive(np.full(9, -2000.0))  # D is negative


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.floats(0.0, 0.6))
def test_chosen_variables_do_not_meet(seed: int, n: int, density: float) -> None:
    rng = np.random.default_rng(seed)
    S = np.triu(rng.random((n, n)) < density, 1).astype(float)
    S = S + S.T
    candidates = rng.random(n) < 0.8
    chosen = apart(sp.csr_array(S), candidates)
    assert not np.any(chosen & ~candidates)
    assert not np.any(S[np.ix_(chosen, chosen)])
    left = candidates & ~chosen
    assert np.all(S[np.ix_(left, chosen)].sum(axis=1) > 0)  # nobody is left out without a reason


@pytest.mark.parametrize("method", ["backward", "backward-free"])
def test_proofs_by_the_block_and_by_the_whole_agree(method: str) -> None:
    relaxation = built(Problem.of(deep_net(12, 4, 4, 1), Box(np.zeros(12), 0.5)), method)
    y = solve_rank_two(relaxation.problem).y
    whole = prove(relaxation, y)
    with patch("lipcert.rounding.split.LEAST", 2):
        S, error = sparse_slack(relaxation.problem, y)
        assert split(S, error) is not None
        by_block = prove(relaxation, y)
        assert by_block.upper == pytest.approx(whole.upper, rel=1e-7)
        assert check(relaxation, y, by_block.shift).upper == by_block.upper
        assert check(relaxation, y, whole.shift).upper == whole.upper
        bad = prove(relaxation, np.zeros_like(y))  # nothing is positive: the whole matrix takes over
        assert np.isfinite(bad.upper)
    assert is_positive(S.toarray(), find_shift(S.toarray(), error), error)
    assert check(relaxation, y, 1.001 * by_block.shift + 1e-12).upper < np.inf
