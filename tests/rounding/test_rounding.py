"""Outward rounding, against exact rational arithmetic."""

from __future__ import annotations

import platform
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lipcert import rounding
from lipcert.problem.norms import INF, Norm, parse_norm
from lipcert.rounding import Array

magnitudes = st.floats(0, 1e300, allow_subnormal=True)
numbers = st.floats(-1e300, 1e300, allow_subnormal=True)


@given(numbers, numbers)
def test_directed_addition_brackets_the_exact_sum_and_is_exact_when_it_can_be(a: float, b: float) -> None:
    low, high = float(rounding.add_down(np.array(a), np.array(b))), float(rounding.add_up(np.array(a), np.array(b)))
    exact = Fraction(a) + Fraction(b)
    assert Fraction(low) <= exact <= Fraction(high)
    if Fraction(a + b) == exact:
        assert low == high == a + b


@given(arrays(np.float64, st.integers(1, 30), elements=st.floats(0, 1e200, allow_subnormal=True)))
def test_sums_are_bracketed(x: Array) -> None:
    exact = sum((Fraction(float(e)) for e in x), Fraction(0))
    assert Fraction(rounding.sum_down(x)) <= exact <= Fraction(rounding.sum_up(x))
    assert rounding.sum_up(x) <= rounding.sum_down(x) * (1 + 1e-13) + 1e-300


def test_a_sum_beyond_the_floats_has_a_finite_lower_bound() -> None:
    x = np.full(30, 1.7e308)
    low = rounding.sum_down(x)
    assert np.isfinite(low)
    assert Fraction(low) <= 30 * Fraction(1.7e308)
    assert low > 1.7e308
    assert rounding.sum_up(x[:1]) < np.inf


def test_gamma_bounds_the_textbook_constant() -> None:
    for n in (1, 10, 1000, 10**6, 10**9):
        u = Fraction(1, 2**53)
        assert Fraction(rounding.gamma(n)) >= n * u / (1 - n * u)
    with pytest.raises(OverflowError):
        rounding.gamma(2**41)


@given(arrays(np.float64, (3, 4), elements=st.floats(-1e3, 1e3)), arrays(np.float64, 4, elements=st.floats(0, 1e3)))
def test_norm_bounds_and_gains(W: Array, v: Array) -> None:
    for p in ("1", "2", "inf"):
        norm = Norm(p)
        value = float(norm.of(v[None, :])[0])
        assert norm.below(v) <= value * (1 + 1e-12)
        assert norm.above(v) >= value * (1 - 1e-12)
        assert norm.above(v) >= norm.below(v)
        assert norm.of((W @ v)[None, :])[0] <= norm.gain(W) * norm.above(v) * (1 + 1e-12)
        assert norm.dual.dual == norm


def test_norm_names() -> None:
    assert parse_norm("Linf") == INF
    assert str(INF) == "inf"
    with pytest.raises(ValueError, match="not supported"):
        parse_norm("3")


def test_arrays_that_are_freed_and_made_again_cost_no_page_faults() -> None:
    """In a fresh process: what ran before in this one may have raised the limit of the allocator."""
    resource = pytest.importorskip("resource", reason="this system does not count page faults")
    if platform.libc_ver()[0] != "glibc":
        pytest.skip("this system's allocator has other rules")
    assert resource is not None
    count = "resource.getrusage(resource.RUSAGE_SELF).ru_minflt"
    loop = "for _ in range(50): some = [np.full(1 << 17, 1.0) for _ in range(16)]; del some"
    text = f"import resource, numpy as np, lipcert.rounding; a = {count}; exec({loop!r}); print({count} - a)"
    faults = int(subprocess.run([sys.executable, "-c", text], capture_output=True, check=True, text=True).stdout)
    assert faults < 20_000  # 50 times 16 arrays of 256 pages would be 204,800
