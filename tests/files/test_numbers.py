"""Numbers of strangers' files: kind, shape and inclusive range, and the forgeries that hostile numbers make."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays, floating_dtypes, integer_dtypes, unsigned_integer_dtypes

import lipcert
from lipcert.cli.app import run
from lipcert.errors import FileFormatError
from lipcert.files.numbers import LARGEST, LARGEST_WHOLE, one_real, one_whole, real, whole, within, word
from lipcert.polynomial.certificates.certificate import PolynomialCertificate
from lipcert.polynomial.certificates.stored import StoredRelaxation
from lipcert.polynomial.polynomial import Polynomial
from lipcert.polynomial.problem import PolynomialProblem
from lipcert.problem.frame import Frame
from lipcert.proof.file import load_certificate
from lipcert.relaxation.cuts import valid_table
from lipcert.relaxation.slopes import SlopeBlock, SlopeMultipliers, SlopeProgram
from tests.polynomial_problems import solved

NET = lipcert.Network.from_weights([[[1.0, 2.0], [3.0, -1.0]], [[1.0, 1.0]]], [[0.0, 0.0], [0.0]])  # its constant is 5
LEAST = -(2**63)


@given(st.data())
def test_whole_numbers_pass_exactly_where_they_are_in_the_range(data: Any) -> None:
    """The oracle compares Python's integers, which have no ends."""
    kind = data.draw(st.one_of(integer_dtypes(), unsigned_integer_dtypes()))
    array = data.draw(arrays(kind, array_shapes(max_dims=2, max_side=3, min_side=0)))
    ends = st.integers(LEAST, LARGEST_WHOLE)
    low, high = data.draw(ends), data.draw(ends)
    fits = all(low <= int(x) <= high for x in array.reshape(-1))
    shape = (None,) * array.ndim
    if fits:
        np.testing.assert_array_equal(whole({"x": array}, "x", shape, low, high).astype(object), array.astype(object))
    else:
        with pytest.raises(FileFormatError):
            whole({"x": array}, "x", shape, low, high)


@given(arrays(floating_dtypes(sizes=(16, 32, 64)), array_shapes(max_dims=2, max_side=3, min_side=0)))
def test_numbers_that_are_none_are_in_no_range(array: Any) -> None:
    shape, good = (None,) * array.ndim, bool(np.all(np.isfinite(array)))
    if good:
        np.testing.assert_array_equal(real({"x": array}, "x", shape), array)
    else:
        with pytest.raises(FileFormatError, match="must be finite"):
            real({"x": array}, "x", shape)
    if np.any(np.isnan(array)):
        with pytest.raises(FileFormatError):
            real({"x": array}, "x", shape, -np.inf, np.inf)


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.array(LEAST), "must be between -20 and 20"),
        (np.array(2**63, dtype=np.uint64), "must be between -20 and 20"),
        (np.array(3.0), "whole numbers are needed"),
        (np.array([3]), "it must be one number"),
        (np.array(True), "whole numbers are needed"),
        (np.array("3"), "whole numbers are needed"),
        (np.zeros((), dtype=[("a", np.int64)]), "whole numbers are needed"),
        (np.array(None), "whole numbers are needed"),
    ],
)
def test_what_is_no_such_number_is_refused_in_one_line(array: Any, words: str) -> None:
    with pytest.raises(FileFormatError, match=words) as caught:
        one_whole({"x": array}, "x", -20, 20)
    assert "\n" not in str(caught.value)


def test_numbers_that_a_float_would_round_are_refused() -> None:
    assert one_real({"x": np.array(2**53)}, "x") == 2.0**53
    for array in (np.array(2**53 + 1), np.array(1.0, dtype=np.longdouble)):
        with pytest.raises(FileFormatError):
            one_real({"x": array}, "x", -np.inf, np.inf)
    with pytest.raises(FileFormatError, match="0 or more"):
        one_real({"x": np.array(-5e-324)}, "x", 0.0, LARGEST)
    with pytest.raises(FileFormatError, match="array x is missing"):
        one_real({}, "x")
    with pytest.raises(FileFormatError, match="one word"):
        word({"x": np.array(["a"])}, "x")
    assert not within(np.array([[0, LEAST]]), [0, -1], [9, 9])


def vanishing(arrays_: dict[str, Any], scale: Any) -> dict[str, Any]:
    """A proof without any rows, in units in which every term would vanish."""
    width = arrays_["sos_basis"].shape[1]
    return arrays_ | {
        "sos_blocks": np.array([[1, 0, -1]]),
        "sos_basis": np.full((1, width), -1, np.int32),
        "sos_equalities": arrays_["sos_equalities"][:0],
        "sos_rules": arrays_["sos_rules"][:0],
        "sos_inequalities": arrays_["sos_inequalities"][:0],
        "sos_products": arrays_["sos_products"][:0],
        "sos_families": arrays_["sos_families"][:0],
        "sos_scale": np.full(len(arrays_["sos_scale"]), scale),
        "sos_index": np.zeros(0, np.int32),
        "sos_numbers": np.zeros(0),
    }


@pytest.mark.parametrize("method", ["shor", "hr1", "hr2"])
@pytest.mark.parametrize("scale", [np.int64(LEAST), np.uint64(2**63)])
def test_a_scale_that_vanishes_proves_nothing(method: str, scale: Any, tmp_path: Path) -> None:
    found = lipcert.bound(NET, lipcert.Box([0.0, 0.0], 1.0), output=0, method=method, literal=method != "hr1", work=1.0)
    forged = vanishing(dict(found.certificate.arrays()), scale) | {"upper": np.float64(1e-6)}
    path, net = tmp_path / "forged.npz", tmp_path / "net.npz"
    np.savez(path, allow_pickle=False, **forged)
    NET.save(net)
    with pytest.raises(FileFormatError, match="array sos_scale has numbers from"):
        lipcert.verify(path, NET)
    assert run(["verify", str(path), "--network", str(net)]) == 2


def test_a_polynomial_bound_whose_scale_vanishes_is_refused(tmp_path: Path) -> None:
    problem = tmp_path / "p.pop"
    problem.write_text("variables x y\nminimize x^2 + y^2 - x*y + x\n-1 <= x <= 1\n-1 <= y <= 1\n")
    proof, forged = tmp_path / "proof.npz", tmp_path / "forged.npz"
    assert run(["pop", str(problem), "--certificate", str(proof)]) == 0
    own = load_certificate(proof, PolynomialCertificate).arrays()
    np.savez(forged, allow_pickle=False, **vanishing(own, np.int64(LEAST)) | {"bound": own["bound"] + 100.0})
    assert run(["verify", str(proof), "--problem", str(problem)]) == 0
    assert run(["verify", str(forged), "--problem", str(problem)]) == 2


def test_scales_that_round_the_objective_are_refused() -> None:
    """A coefficient of 1e-100 in units of 2^-20 to the power 14, times 2^-400, has few digits left."""
    x = Polynomial.from_terms({(0,): 1.0})
    problem = PolynomialProblem(Polynomial.from_terms({(0,) * 14: 1e-100}), (1 - x, 1 + x), ())
    certificate = solved(problem).certificate
    assert certificate is not None
    kept = certificate.relaxation
    assert np.isfinite(kept.bound(problem))
    with pytest.raises(FileFormatError, match="round the objective"):
        StoredRelaxation(kept.arrays | {"sos_factor": np.array(-400), "sos_scale": np.array([-20])}).bound(problem)


def test_the_least_whole_number_is_no_step_of_a_cut() -> None:
    """Its absolute value is negative, so a test of the size would let it pass."""
    cross = np.array([[1, 0, 1, 2, 0, LEAST, -3, 0, 0]])
    assert not valid_table(cross)
    cross[0, 5] = -16
    assert valid_table(cross)


def test_places_of_a_weighted_question_are_rounded_outward_where_they_underflow() -> None:
    """A large power of two as a scale: what is divided by it keeps few digits, or none."""
    lo, hi = np.array([-1e-16, -1.0]), np.array([1e-16, 1.0])
    for scale in (np.array([2.0**1023, 1.0]), np.full((2, 2), 2.0**1023)):
        frame = Frame(None, None, None, scale, None)
        low, high = frame.places(lo, hi)
        assert low[0] < 0 < high[0]


def test_slopes_whose_inputs_overflow_fit_nothing() -> None:
    program = SlopeProgram(2, (SlopeBlock(((0, np.eye(2)),), np.zeros(2), np.ones(2)),), ((1, np.eye(2)),), True)
    assert SlopeMultipliers((np.ones(2),), np.ones(2)).fits(program)
    assert not SlopeMultipliers((np.ones(2),), np.full(2, 1e308)).fits(program)
