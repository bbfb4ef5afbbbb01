"""Certificates of polynomial bounds in files, checked against the problem or the network that is given."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lipcert
from lipcert import (
    Box,
    FileFormatError,
    InputError,
    LipcertError,
    MethodError,
    Network,
    Polynomial,
    PolynomialProblem,
    load,
    maximize,
    minimize,
    verify,
    verify_polynomial,
)
from lipcert.cli.app import run
from lipcert.files import write_npz
from lipcert.polynomial.certificates.certificate import PolynomialCertificate, problem_hash
from lipcert.polynomial.certificates.stored import StoredRelaxation
from lipcert.proof.balls.numbers import load_flint
from lipcert.proof.file import load_certificate
from tests.enumeration import exact_constant
from tests.polynomial_problems import CYCLE5, max_cut, solved

x = [Polynomial.variable(i) for i in range(4)]
ROSENBROCK = PolynomialProblem(100.0 * (x[1] - x[0] ** 2) ** 2 + (1.0 - x[0]) ** 2)
HYPERBOLA = PolynomialProblem(x[0] + x[1], (x[0] * x[1] - 1.0, x[0], x[1]))
SQUARE = PolynomialProblem(x[0] * x[1] - x[0] - x[1] + x[0] ** 2, lower=np.zeros(2), upper=np.ones(2)).boxed()
CIRCLE = PolynomialProblem(x[0] + 2.0 * x[1], (x[0],), (1.0 - x[0] ** 2 - x[1] ** 2,))
SUM = PolynomialProblem(x[0] * x[1] + x[2] ** 2, tuple(x[:3]), (x[0] + x[1] + x[2] - 1.0,))
KEPT: dict[str, tuple[PolynomialProblem, str, int]] = {
    "no bounds, a basis of polynomials": (ROSENBROCK, "dense", 2),
    "a cut": (HYPERBOLA, "dense", 2),
    "products": (SQUARE, "krivine", 2),
    "cliques": (SQUARE, "sparse", 2),
    "squares of equalities": (SUM, "nearly-sparse", 2),
    "equations": (CIRCLE, "dense", 2),
    "rules, a maximum": (max_cut(5, CYCLE5), "dense", 2),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_is_saved_is_proved_again(name: str, tmp_path: Path) -> None:
    problem, relaxation, order = KEPT[name]
    result = solved(problem, relaxation, order)
    assert result.certificate is not None
    path = tmp_path / "proof.npz"
    result.certificate.save(path)
    answer = verify_polynomial(path, problem)
    assert answer.proved, answer.reason
    assert answer.bound == pytest.approx(result.bound, abs=1e-9)
    assert answer.claim == pytest.approx(result.bound, abs=1e-8)
    assert [p.name for p in tmp_path.iterdir()] == ["proof.npz"]


def _certificate(name: str) -> tuple[PolynomialCertificate, PolynomialProblem]:
    problem, relaxation, order = KEPT[name]
    certificate = solved(problem, relaxation, order).certificate
    assert certificate is not None
    return certificate, problem


def _changed(certificate: PolynomialCertificate, name: str, value: Any) -> PolynomialCertificate:
    arrays = certificate.relaxation.arrays
    return replace(certificate, relaxation=StoredRelaxation(arrays | {name: value(arrays[name].copy())}))


def _put(index: Any, value: float) -> Callable[[Any], Any]:
    def put(array: Any) -> Any:
        array[index] = value
        return array

    return put


REFUSED: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    "a multiplier of no constraint": ("a cut", "sos_blocks", _put((1, 2), 99)),
    "a negative constraint": ("a cut", "sos_blocks", _put((1, 2), -2)),
    "an empty basis": ("a cut", "sos_blocks", _put((0, 0), 0)),
    "a basis that is too long": ("a cut", "sos_blocks", _put((0, 0), 2**40)),
    "a huge mixed basis": ("a cut", "sos_blocks", _put((0, 1), 2**30)),
    "an unknown variable": ("a cut", "sos_basis", _put((1, -1), 7)),
    "basis of text": ("a cut", "sos_basis", lambda a: a.astype(float)),
    "not a number": ("a cut", "sos_numbers", _put(0, np.nan)),
    "an infinite number": ("a cut", "sos_numbers", _put(0, np.inf)),
    "a multiplier too many": ("a cut", "sos_index", _put(0, 10**6)),
    "numbers that are missing": ("a cut", "sos_numbers", lambda a: a[1:]),
    "a scale too large": ("a cut", "sos_scale", _put(0, 5000)),
    "scales of other variables": ("a cut", "sos_scale", lambda a: a[1:]),
    "a factor too large": ("a cut", "sos_factor", lambda a: a + 10**6),
    "coefficients of zero": ("no bounds, a basis of polynomials", "sos_mix", lambda a: 0.0 * a),
    "coefficients that are missing": ("no bounds, a basis of polynomials", "sos_mix", lambda a: a[1:]),
    "tiny coefficients": ("no bounds, a basis of polynomials", "sos_mix", lambda a: 1e-90 * a),
    "an equality of another problem": ("equations", "sos_equalities", _put((0, 0), 1)),
    "a rule of another variable": ("rules, a maximum", "sos_rules", _put((0, 0), 1)),
    "a rule twice": ("rules, a maximum", "sos_rules", _put(1, 0)),
    "a factor of no kind": ("products", "sos_factors", _put((0, 0), 9)),
    "a factor of no variable": ("products", "sos_factors", _put((0, 1), 9)),
    "products that should vanish": ("products", "sos_families", _put((0, 1), 1)),
    "products that are missing": ("products", "sos_families", _put((0, 0), 1)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_forged_arrays_are_refused_in_a_line(name: str) -> None:
    kept, array, change = REFUSED[name]
    certificate, problem = _certificate(kept)
    with pytest.raises((FileFormatError, InputError)) as caught:
        _changed(certificate, array, change).check(problem)
    assert "\n" not in str(caught.value)


def test_forged_numbers_prove_nothing_more() -> None:
    for name in KEPT:
        certificate, problem = _certificate(name)
        sign = 1.0 if problem.sense == "min" else -1.0
        best = sign * certificate.bound + 1e-6
        for change in (lambda a: -a, lambda a: 1.5 * a, lambda a: a[::-1].copy(), lambda a: a * 0 + 1e30):
            forged = _changed(certificate, "sos_numbers", change)
            assert sign * forged.check(problem) <= best
            assert not verify_polynomial(replace(forged, bound=certificate.bound + sign), problem).proved


def test_claims_and_other_problems() -> None:
    certificate, problem = _certificate("a cut")
    assert not verify_polynomial(replace(certificate, bound=2.1), problem).proved
    assert not verify_polynomial(replace(certificate, bound=np.nan), problem).proved
    other = PolynomialProblem(problem.objective, problem.inequalities[:2])
    answer = verify_polynomial(certificate, other)
    assert not answer.proved
    assert answer.bound == -np.inf
    assert answer.reason == "the certificate is about another problem (the hashes differ)"
    lied = replace(certificate, problem_sha256=problem_hash(other))  # the hash may lie; what is proved may not
    with pytest.raises(LipcertError):
        lied.check(other)
    larger = PolynomialProblem(x[0] + x[1] - 1.0, problem.inequalities)
    assert certificate.check(larger) <= 1.0
    high = replace(certificate, cut=100.0)
    assert high.check(problem) <= 2.0


def test_damaged_files(tmp_path: Path) -> None:
    certificate, problem = _certificate("a cut")
    path = tmp_path / "proof.npz"
    for change, words in (
        ({"certificate": np.array(9)}, "version"),
        ({"polynomial": np.array(1)}, "twice"),
        ({"sense": np.array("up")}, "min or max"),
        ({"cut": np.array(np.nan)}, "finite"),
        ({"bound": np.zeros(2)}, "one number"),
        ({"extra": np.zeros(2)}, "unexpected array"),
        ({"problem": np.zeros(2)}, "text is needed"),
    ):
        write_npz(path, certificate.arrays() | change)
        with pytest.raises(FileFormatError, match=words):
            load_certificate(path, PolynomialCertificate)
    for missing in ("sos_blocks", "bound", "sos_numbers"):
        write_npz(path, {k: v for k, v in certificate.arrays().items() if k != missing})
        with pytest.raises(FileFormatError, match="missing"):
            verify_polynomial(path, problem)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(FileFormatError):
        load_certificate(path, PolynomialCertificate)


def test_maximum_with_a_cut() -> None:
    objective, constraints = -1.0 * HYPERBOLA.objective, HYPERBOLA.inequalities
    result = maximize(objective, constraints, order=2)
    assert -2.0 <= result.bound <= -2.0 + 1e-6
    assert result.certificate is not None
    problem = PolynomialProblem(objective, constraints, sense="max")
    assert verify_polynomial(result.certificate, problem).proved
    assert not verify_polynomial(replace(result.certificate, bound=-2.1), problem).proved
    assert minimize(objective, constraints, order=2).certificate is None


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem, other, proof = tmp_path / "a.pop", tmp_path / "b.pop", str(tmp_path / "proof.npz")
    problem.write_text("variables x y\nminimize 100*(y - x^2)^2 + (1 - x)^2\n")
    other.write_text("variables x y\nminimize 100*(y - x^2)^2 + (1 - x)^2 - 1\n")
    assert run(["pop", str(problem), "--certificate", proof]) == 0
    assert run(["verify", proof, "--problem", str(problem)]) == 0
    assert "proved" in capsys.readouterr().out
    assert run(["verify", proof, "--problem", str(other), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["proved"] is False
    assert told["bound"] is None
    assert "another problem" in told["reason"]
    for arguments, words in (
        (["verify", proof], "--problem FILE"),
        (["verify", proof, "--problem", str(problem), "--network", "net.npz"], "alone"),
        (["verify", str(problem), "--problem", str(problem)], "certificates are .npz files"),
        (["pop", str(problem), "--certificate", "proof.txt"], "ending"),
        (["pop", str(problem), "--certificate", str(tmp_path / "no" / "proof.npz")], "no such folder"),
    ):
        assert run(arguments) == 2
        error = capsys.readouterr().err
        assert words in error
        assert error.count("\n") == 1


def _network(seed: int, *shape: int) -> Network:
    rng = np.random.default_rng(seed)
    pairs = list(pairwise(shape))
    return Network.from_weights(
        [rng.normal(size=(b, a)) / np.sqrt(a) for a, b in pairs], [0.3 * rng.normal(size=b) for _, b in pairs]
    )


CHANGES: tuple[Callable[[Any], Any], ...] = (lambda a: -a, lambda a: 0.0 * a, lambda a: 2.0 * a, lambda a: a[::-1])
ONE, TWO = _network(0, 3, 4, 1), _network(1, 3, 3, 2, 1)


@pytest.mark.parametrize(
    ("method", "net"),
    [("shor", ONE), ("hr1", ONE), ("hr2", ONE), ("lipopt3", ONE), ("hr1", TWO), ("lifting", TWO), ("lipopt3", TWO)],
)
def test_literal_estimators_have_files(method: str, net: Network, tmp_path: Path) -> None:
    box = Box(np.zeros(3), 0.5)
    result = lipcert.bound(net, box, output=0, method=method, literal=method in ("shor", "hr2"), lower=False)
    assert result.method == f"{method}-literal"
    path, file = tmp_path / "proof.npz", tmp_path / "net.npz"
    result.certificate.save(path)
    net.save(file)
    answer = verify(path, load(file))
    assert answer.proved, answer.reason
    assert answer.upper <= result.upper * (1 + 1e-9)
    arrays = result.certificate.arrays()
    true = exact_constant(net, box, np.ones(1))
    numbers = "krivine_numbers" if method.startswith("lipopt") else "sos_numbers"
    for change in CHANGES:
        write_npz(path, arrays | {numbers: change(arrays[numbers]), "upper": np.array(0.9 * true)})
        forged = verify(path, net)
        assert not forged.proved
        assert forged.upper >= true * (1 - 1e-9)
    other = _network(5, *net.shape)
    write_npz(path, arrays | {"network": np.array(other.sha256, dtype="U64")})
    stolen = verify_or_none(path, other)
    assert stolen is None or stolen >= exact_constant(other, box, np.ones(1)) * (1 - 1e-9)


def verify_or_none(path: Path, net: Network) -> float | None:
    try:
        return verify(path, net).upper
    except LipcertError:
        return None


def test_forged_literal_files(tmp_path: Path) -> None:
    box, path = Box(np.zeros(3), 0.5), tmp_path / "proof.npz"
    for method, changes in (
        ("lipopt3", {"krivine_degree": np.array(50)}),
        ("lipopt3", {"krivine_index": np.array([-1]), "krivine_numbers": np.array([1.0])}),
        ("lipopt3", {"krivine_numbers": np.zeros(1)}),
        ("hr1", {"literal_form": np.array("other")}),
        ("hr1", {"sos_index": np.zeros((2, 2), dtype=np.int64)}),
    ):
        certificate = lipcert.bound(ONE, box, output=0, method=method, lower=False).certificate
        write_npz(path, certificate.arrays() | changes)
        with pytest.raises(LipcertError) as caught:
            verify(path, ONE)
        assert "\n" not in str(caught.value)
    certificate = lipcert.bound(ONE, box, output=0, method="lipopt3", lower=False).certificate
    many = {"krivine_index": np.array([10**8], dtype=np.int64), "krivine_numbers": np.ones(1)}
    write_npz(path, certificate.arrays() | many)
    assert not verify(path, ONE).proved


def test_the_second_checker_says_that_it_does_not_know_them() -> None:
    pytest.importorskip("flint")
    load_flint()
    from lipcert.proof.balls import check_with_balls

    certificate = lipcert.bound(ONE, Box(np.zeros(3), 0.5), output=0, method="hr1", lower=False).certificate
    with pytest.raises(MethodError, match="does not know"):
        check_with_balls(certificate, ONE)
