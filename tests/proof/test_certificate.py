"""Certificates: whatever a solver, a file or a forger puts into them, no proved bound lies below the exact constant."""

from __future__ import annotations

import ast
import dataclasses
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lipcert
from lipcert import Box, Everywhere, FileFormatError, InputError, MethodError, Network
from lipcert.method.solving import Task
from lipcert.problem.problem import Problem
from lipcert.problem.region import Region
from lipcert.proof import Arithmetic, Certificate, Multipliers, prove_interval, prove_product
from lipcert.proof.file import load_certificate
from lipcert.proof.multipliers import check, prove, sparse_slack
from lipcert.proof.verification import Verification
from lipcert.proof.verify import verify
from lipcert.relaxation.rank_two import RankTwoProblem
from lipcert.rounding import Array
from lipcert.rounding.definite import find_shift, is_positive
from tests.forging import asking
from tests.lift_tools import built
from tests.one_layer_tools import (
    Case,
    exact,
    one_layer_cases,
    proof_of,
    random_case,
    random_net,
    solved,
    weights,
    with_specification,
)
from tests.problems import AROUND_4, AROUND_11

METHODS = ("hr2", "shor")
ROUNDING = 1e-9  # of the enumeration, which is plain floating point


# Positive semidefiniteness


def _slack(problem: RankTwoProblem, multipliers: Array) -> tuple[Array, Array]:
    """The slack matrix as an array, and the error of its rows."""
    S, error = sparse_slack(problem, multipliers)
    return np.asarray(S.toarray()), error


def _exactly_semidefinite(S: Array, shift: Array, error: Array) -> bool:
    """S + diag(shift) - diag(error) >= 0 in rational arithmetic, by symmetric elimination."""
    n = len(S)
    M = [[Fraction(S[i, j]) for j in range(n)] for i in range(n)]
    for i in range(n):
        M[i][i] += Fraction(shift[i]) - Fraction(error[i])
    for k in range(n):
        if M[k][k] < 0 or (M[k][k] == 0 and any(M[k][k + 1 :])):
            return False
        if M[k][k] == 0:
            continue
        for i in range(k + 1, n):
            factor = M[i][k] / M[k][k]
            for j in range(k, n):
                M[i][j] -= factor * M[k][j]
    return True


def test_is_positive_is_right_at_the_edge() -> None:
    """Nearly singular matrices, moved by a few units in the last place: yes must be true, and is said often enough."""
    rng = np.random.default_rng(0)
    said = {True: 0, False: 0}
    for _ in range(1500):
        n = int(rng.integers(2, 7))
        factor = rng.normal(size=(n, n - 1)) * 10.0 ** rng.integers(-3, 4)
        S = factor @ factor.T
        S = (S + S.T) / 2
        size = float(np.abs(S).max())
        error = np.full(n, size * 10.0 ** rng.uniform(-18, -15) * float(rng.integers(0, 2)))
        shift = np.abs(rng.normal(size=n)) * size * 10.0 ** rng.uniform(-18, -13) * float(rng.integers(0, 3) > 0)
        answer = is_positive(S, shift, error)
        said[answer] += 1
        assert not answer or _exactly_semidefinite(S, shift, error)
    assert said[True] > 200
    assert said[False] > 200


@settings(max_examples=45)
@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.sampled_from((1e-200, 1e-6, 1.0, 1e8, 1e150)))
def test_is_positive_on_random_matrices(seed: int, n: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    values = rng.uniform(0.1, 1.0, size=n)
    none = np.zeros(n)
    S = (Q * values) @ Q.T * scale
    S = (S + S.T) / 2
    assert is_positive(S, none, none)
    assert not is_positive(S, none, np.full(n, 1.01 * scale))
    values[0] = -1e-6
    S = (Q * values) @ Q.T * scale
    S = (S + S.T) / 2
    assert not is_positive(S, none, none)
    assert is_positive(S, np.full(n, 1.1e-6 * scale), none)
    shift = find_shift(S, np.full(n, 1e-9 * scale))
    assert is_positive(S, shift, np.full(n, 1e-9 * scale))
    assert shift.sum() <= 1.2e-6 * scale * n


def test_is_positive_refuses_what_is_no_number() -> None:
    S, none = np.eye(3), np.zeros(3)
    assert is_positive(S, none, none)
    for bad in (np.nan, np.inf, -np.inf):
        for place in ((0, 0), (2, 1)):
            T = S.copy()
            T[place] = T[place[::-1]] = bad
            assert not is_positive(T, none, none)
        assert not is_positive(S, np.array([0.0, bad, 0.0]), none)
    for bad in (np.nan, np.inf):
        assert not is_positive(S, none, np.array([0.0, bad, 0.0]))
    assert np.all(np.isinf(find_shift(np.full((2, 2), np.nan), np.zeros(2))))


def test_error_of_the_slack_matrix_counts_before_cancellation() -> None:
    """Two rows on the same pair of vectors whose multipliers cancel: the sum is rounded, the error must know."""
    one = np.zeros(2, dtype=np.int64)
    problem = RankTwoProblem(np.zeros((1, 1)), np.ones((1, 1)), one, one, np.zeros(2), np.ones(2, bool), np.ones(1))
    lam = np.array([1e16 + 2.0, -1e16])
    three = RankTwoProblem(
        np.zeros((1, 1)), np.ones((1, 1)), np.zeros(3, int), np.zeros(3, int), np.zeros(3), np.ones(3, bool), np.ones(1)
    )
    S, error = _slack(problem, lam)
    assert abs(S[0, 0] - 2.0) <= error[0]
    S, error = _slack(three, np.array([1e16, 1.0, -1e16]))
    assert abs(S[0, 0] - 1.0) <= error[0]


# Solvers that lie


@pytest.mark.parametrize("method", METHODS)
def test_wrong_signs_are_refused_for_their_sign(method: str) -> None:
    """A negative multiplier turns a true row round: with a shift that makes S definite only the sign test is left."""
    net, box, c = AROUND_4.case
    relaxation = built(Problem.of(net, box, c), method)
    problem = relaxation.problem
    honest = relaxation.unpack(proof_of(solved(net, box, c, method)).multipliers)
    for k in np.flatnonzero(~problem.equality):
        for size in (1e-300, 1e-3, 10.0):
            y = honest.copy()
            y[k] = -size
            S, error = _slack(problem, y)
            shift = find_shift(S, error)
            assert is_positive(S, shift, error)
            assert check(relaxation, y, shift).upper == np.inf
    S, error = _slack(problem, honest)
    shift = find_shift(S, error)
    assert np.isfinite(check(relaxation, honest, shift).upper)
    more = relaxation.pack(honest)
    more["w^2 <= 1"] = more["w^2 <= 1"] + 1.0
    y, negative = relaxation.unpack(more), shift.copy()
    negative[relaxation.space.slices["w"]] -= 0.5
    S, error = _slack(problem, y)
    assert is_positive(S, negative, error)
    assert check(relaxation, y, negative).upper == np.inf


@settings(max_examples=40)
@given(one_layer_cases(max_inputs=3, max_neurons=4), st.integers(0, 2**32 - 1))
def test_no_solver_can_prove_too_much(case: Case, seed: int) -> None:
    net, region, c = case
    true = exact(net, region, c)
    rng = np.random.default_rng(seed)
    for method in METHODS:
        relaxation = built(Problem.of(net, region, c), method)
        for y in _lies(rng, relaxation.problem.rows):
            proof = prove(relaxation, y)
            assert proof.upper >= true * (1 - ROUNDING)
            again = check(relaxation, proof.multipliers, proof.shift)
            assert again.upper == proof.upper
            # Taken at its word instead of sanitised, it proves something true or nothing.
            if np.shape(y) == (relaxation.problem.rows,):
                assert check(relaxation, y, proof.shift).upper >= true * (1 - ROUNDING)
                assert check(relaxation, y, np.zeros_like(proof.shift)).upper >= true * (1 - ROUNDING)


def _lies(rng: np.random.Generator, m: int) -> list[Array]:
    noise = rng.normal(size=m)
    spoiled = [np.where(rng.uniform(size=m) < 0.3, bad, noise) for bad in (np.nan, np.inf, -np.inf, 1e300, -1e300)]
    return [
        np.zeros(m),
        noise,
        -np.abs(noise),
        np.abs(noise) * 1e-12,
        noise * 1e12,
        np.ones(m + 1),
        np.ones(0),
        *spoiled,
    ]


@pytest.mark.parametrize("method", METHODS)
def test_noise_loosens_and_never_breaks(method: str) -> None:
    net, box, c = AROUND_4.case
    true, honest = AROUND_4.value, solved(net, box, c, method)
    relaxation = built(Problem.of(net, box, c), method)
    y = relaxation.unpack(proof_of(honest).multipliers)
    rng = np.random.default_rng(0)
    for size in (1e-9, 1e-6, 1e-3, 1.0):
        loose = prove(relaxation, y + size * rng.normal(size=y.shape)).upper
        assert true * (1 - ROUNDING) <= loose <= honest.upper + 20 * size * len(y)


def test_overflow_proves_nothing_and_says_so() -> None:
    """Weights whose products leave the range of floats: an infinite bound or a true one, no exception."""
    net, box, c = AROUND_11.case
    A, b, w = weights(net, c)
    for scale_a, scale_w, radius, factor in (
        (1e200, 1e200, 0.5, 1.0),
        (1.0, 1.0, 0.5, 1e308),
        (1e100, 1.0, 1e250, 1.0),
    ):
        big = Network.from_weights([A * scale_a, (w * scale_w)[None, :]], [b, np.zeros(1)])
        for method in METHODS:
            region = Box(box.center, radius)
            task = Task.of(Problem.of(big, region, c * factor), method)
            certificate = task.prove(np.zeros(task.relaxation.problem.rows))
            assert certificate.upper >= 1e100
            assert verify(certificate, big).upper == certificate.upper


# Honest certificates


CASES: dict[str, tuple[Network, Region]] = {
    "relu": random_case(0, 5, 6, 0.5)[:2],
    "leaky": random_case(1, 6, 4, 0.3, 0.1)[:2],
    "large box": random_case(2, 4, 4, 10.0)[:2],
    "everywhere": (random_net(3, 4, 5), Everywhere()),
    "point": (random_net(4, 3, 3), Box(np.ones(3), 0.0)),
}


@pytest.mark.parametrize("method", ["product", "interval", *METHODS])
@pytest.mark.parametrize("name", CASES)
def test_honest_certificates_verify_and_survive_a_file(method: str, name: str, tmp_path: Path) -> None:
    net, region = CASES[name]
    kept = _certificate(net, region, np.ones(1), method)
    answer = verify(kept, net)
    assert answer == Verification(True, kept.upper, kept.claim, "proved")
    kept.save(tmp_path / "a.npz")
    read = load_certificate(tmp_path / "a.npz")
    assert _content(read) == _content(kept)
    assert verify(tmp_path / "a.npz", net) == answer
    other = random_net(99, net.inputs, net.affines[0].outputs)
    refused = verify(kept, other)
    assert not refused.proved
    assert refused.upper == np.inf
    low = dataclasses.replace(kept, claim=kept.upper * (1 - 1e-12))
    assert not verify(low, net).proved
    assert verify(low, net).upper == kept.upper
    assert not verify(dataclasses.replace(kept, upper=np.nan, claim=np.nan), net).proved
    assert verify(dataclasses.replace(kept, claim=2 * kept.upper), net).proved


def test_certificates_do_not_travel(tmp_path: Path) -> None:
    """Another region, output or method than the one that was solved: what verify says is about the new one."""
    net, box, c = random_case(5, 3, 4, 0.3)
    kept = solved(net, box, c, "hr2")
    larger = Box(box.center, 3.0)
    assert not verify(asking(kept, region=larger), net).proved
    assert not verify(asking(kept, region=Everywhere()), net).proved
    assert not verify(asking(kept, c=10 * c), net).proved
    assert not verify(asking(kept, c=np.ones(2)), net).proved
    assert not verify(asking(kept, region=Box(np.zeros(2), 1.0)), net).proved
    assert not verify(with_specification(kept, form="shor"), net).proved
    with pytest.raises(FileFormatError, match="unknown method"):
        verify(dataclasses.replace(kept, proof=Arithmetic("hr7")), net)
    assert not verify(with_specification(kept, form="hr7"), net).proved
    deep = Network.from_weights([np.ones((2, 3)), np.ones((2, 2)), np.ones((1, 2))])
    with pytest.raises(MethodError, match="one hidden layer"):
        verify(asking(kept, network=deep.sha256), deep)
    for name in ("a.txt", "b.npz"):
        (tmp_path / name).write_bytes(b"not an archive")
        with pytest.raises(FileFormatError):
            load_certificate(tmp_path / name)


def _certificate(net: Network, region: Region, c: Array, method: str) -> Certificate:
    if method in METHODS:
        return solved(net, region, c, method)
    return (prove_product if method == "product" else prove_interval)(Problem.of(net, region, c))


def _content(certificate: Certificate) -> tuple[Any, ...]:
    proof = certificate.proof
    both = (proof.multipliers, proof.shift) if isinstance(proof, Multipliers) else ()
    parts = [(k, v.tolist()) for m in both for k, v in m.items()]
    claims = (certificate.method, certificate.network_sha256, certificate.region, certificate.norm, certificate.claim)
    return (*claims, certificate.c.tolist(), parts)


# Forgers and accidents


@pytest.mark.parametrize("seed", range(6))
def test_a_changed_number_never_proves_too_much(seed: int, tmp_path: Path) -> None:
    """Any number or character of the file: another true bound, or none. The exact constant is that of the new claim."""
    net, box, c = random_case(20 + seed, 2, 2 + seed % 2, 0.8, 0.2 * (seed % 2))
    kept = solved(net, box, c, METHODS[seed % 2])
    true = exact(net, box, c)
    kept.save(tmp_path / "honest.npz")
    with np.load(tmp_path / "honest.npz") as file:
        honest = {name: file[name] for name in file.files}
    rng = np.random.default_rng(seed)
    outcomes = {"proved": 0, "not proved": 0, "refused": 0}
    for k in range(250):
        changed = dict(honest)
        name = sorted(honest)[k % len(honest)]
        changed[name] = _tampered(honest[name], rng)
        np.savez(tmp_path / "forged.npz", **changed)
        outcomes[_judge(tmp_path / "forged.npz", net, kept, true)] += 1
    assert min(outcomes.values()) > 10, outcomes


def _tampered(values: Any, rng: np.random.Generator) -> Any:
    """One number or one character changed."""
    flat = np.array(values).reshape(-1)
    if not flat.size:
        return values
    i = int(rng.integers(flat.size))
    if flat.dtype.kind == "U":
        text = list(str(flat[i])) or [" "]
        text[int(rng.integers(len(text)))] = str(rng.choice(list("0123456789abcdef +-z=<>")))
        flat[i] = "".join(text)
    elif flat.dtype.kind in "iu":
        flat[i] += int(rng.integers(1, 5))
    else:
        bits = flat[i : i + 1].view(np.uint64)
        value = float(flat[i])
        options = [
            value * (1 + rng.normal() * 10.0 ** rng.uniform(-14, 0)),
            value + rng.normal() * 10.0 ** rng.uniform(-12, 2),
            -value,
            float(rng.choice([0.0, np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324])),
            float((bits ^ (np.uint64(1) << np.uint64(rng.integers(64)))).view(np.float64)[0]),
        ]
        flat[i] = options[int(rng.integers(len(options)))]
    return flat.reshape(np.shape(values))


def _judge(path: Path, net: Network, kept: Certificate, true: float) -> str:
    try:
        read = load_certificate(path)
        answer = verify(read, net)
    except InputError:
        return "refused"
    if not answer.proved:
        return "not proved"
    if read.region != kept.region or not np.array_equal(read.c, kept.c):
        assert isinstance(read.region, Box)
        near = Box.from_bounds(np.clip(read.region.lo, -1e6, 1e6), np.clip(read.region.hi, -1e6, 1e6))
        true = exact(net, near, read.c) if np.abs(read.c).max() < 1e300 else np.inf
    assert answer.upper >= true * (1 - ROUNDING)
    assert read.upper >= true * (1 - 3 * ROUNDING)
    return "proved"


def test_a_certificate_is_saved_where_it_can_be_read(tmp_path: Path) -> None:
    net, box, c = random_case(30, 2, 2, 0.8)
    kept = solved(net, box, c, "hr2")
    with pytest.raises(InputError, match=r"proof\.txt: a certificate is saved as \.npz; give the file that ending"):
        kept.save(tmp_path / "proof.txt")
    assert not [*tmp_path.iterdir()]
    assert re.fullmatch(r"Certificate\(upper [\d.]+ by hr2, Box\(\d+ inputs, radius [\d.]+\)\)", repr(kept))


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    """Truncations and flipped bits: FileFormatError, not proved, or the same content (a flip in a date, say)."""
    net, box, c = random_case(30, 2, 2, 0.8)
    kept = solved(net, box, c, "hr2")
    kept.save(tmp_path / "honest.npz")
    whole = (tmp_path / "honest.npz").read_bytes()
    rng = np.random.default_rng(0)
    damaged = [whole[:n] for n in range(0, len(whole), 41)]
    for place in rng.integers(8 * len(whole), size=1200):
        flipped = bytearray(whole)
        flipped[place // 8] ^= 1 << (place % 8)
        damaged.append(bytes(flipped))
    refused = 0
    for k, data in enumerate(damaged):
        path = tmp_path / "damaged.npz"
        path.write_bytes(data)
        try:
            read = load_certificate(path)
            proved = verify(read, net).proved
        except FileFormatError:
            refused += 1
            continue
        assert not proved or _content(read) == _content(kept), k
    assert refused > len(damaged) // 2


# The checker


def test_the_checker_knows_no_solver() -> None:
    """Everything that lipcert.proof imports, directly or not; the package's own front door aside."""
    source = Path(lipcert.__file__).parent
    todo = list((source / "proof").glob("*.py"))
    seen: set[Path] = set()
    while todo:
        path = todo.pop()
        if path in seen or path == source / "__init__.py":
            continue
        seen.add(path)
        for module in _imported(path):
            assert module.split(".")[0] not in ("clarabel", "mosek", "scs"), path
            assert module != "scipy.optimize", path
            if module.startswith("lipcert."):
                target = source.joinpath(*module.split(".")[1:])
                todo += [t for t in (target.with_suffix(".py"), target / "__init__.py") if t.exists()]
    rooms = {p.relative_to(source).parts[0] for p in seen}
    assert {"proof", "relaxation", "bounds", "problem"} <= rooms
    assert not {"solver", "method", "witness", "polynomial"} & rooms


def _imported(path: Path) -> list[str]:
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found += [node.module, *(f"{node.module}.{a.name}" for a in node.names)]
        elif isinstance(node, ast.Import):
            found += [a.name for a in node.names]
    return found
