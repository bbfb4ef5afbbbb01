"""Weighted norms and changes of some inputs: against enumeration, against sampling, and forged."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lipcert import Ball, Box, Everywhere, InputError, Network, bound, verify
from lipcert.problem.frame import Frame
from lipcert.problem.norms import Norm, parse_norms
from lipcert.problem.rewriting import followed, led, scaled_inputs
from lipcert.problem.weights import cover_share, covering, covers, ranges, span_share, spanning, spans
from lipcert.rounding import Array
from tests.forging import asking

DUAL: dict[str, Any] = {"inf": 1, "2": 2, "1": np.inf}


def a_network(rng: np.random.Generator, shape: tuple[int, ...] = (3, 6, 5, 2)) -> Network:
    weights = [rng.normal(size=(b, a)) / np.sqrt(a) for a, b in pairwise(shape)]
    return Network.from_weights(weights, [0.3 * rng.normal(size=b) for b in shape[1:]])


def a_definite_matrix(rng: np.random.Generator, n: int) -> Array:
    A = rng.normal(size=(n, n))
    P = A @ A.T + 0.1 * np.eye(n)
    return np.asarray((P + P.T) / 2)


def sampled(net: Network, box: Box, rng: np.random.Generator, count: int = 4000) -> Array:
    points = box.lo + (box.hi - box.lo) * rng.random((count, net.inputs))
    return np.stack([net.gradient(points, e) for e in np.eye(net.outputs)], axis=1)


def operator_norm(J: Array, p: str, q: str) -> float:
    if q == "inf":
        return float(np.linalg.norm(J, DUAL[p], axis=1).max())
    if p == "1":
        return float(np.linalg.norm(J, {"2": 2, "1": 1}[q], axis=0).max())
    assert p == q == "2"
    return float(np.linalg.norm(J, 2))


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["inf", "2", "1"]), st.booleans())
def test_weights_of_inputs(seed: int, p: str, some: bool) -> None:
    rng = np.random.default_rng(seed)
    net, box, w = a_network(rng), Box(0.1 * rng.normal(size=3), 0.7), rng.uniform(0.2, 5.0, 3)
    inputs = [0, 2] if some else None
    own = [0, 1, 2] if inputs is None else inputs
    found = bound(net, box, output=0, norm=p, input_weights=w, inputs=inputs, work=2.0)
    truth = np.linalg.norm((sampled(net, box, rng)[:, 0] / w)[:, own], DUAL[p], axis=1).max()
    assert truth <= found.upper * (1 + 1e-12)
    assert found.lower is not None
    assert found.upper <= found.lower * (1 + 1e-6)  # so small a network closes, and the witness is proved on its own
    assert found.witness is not None
    assert box.contains(found.witness)
    g = net.gradient(found.witness, np.array([1.0, 0.0]))[0]
    assert np.linalg.norm((g / w)[own], DUAL[p]) == pytest.approx(found.lower, rel=1e-9)
    assert verify(found.certificate, net).proved


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("some", [False, True])
def test_matrices_of_both_ends(seed: int, some: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    net, box, own = a_network(rng), Box(0.1 * rng.normal(size=3), 0.7), [0, 2] if some else [0, 1, 2]
    P, Q = a_definite_matrix(rng, len(own)), a_definite_matrix(rng, 2)
    weights: dict[str, Any] = {"input_weights": P, "output_weights": Q, "inputs": own if some else None}
    found = bound(net, box, output="all", norm="2", work=2.0, **weights)
    R, C = np.linalg.cholesky(P).T, np.linalg.cholesky(Q).T
    truth = max(operator_norm(C @ J[:, own] @ np.linalg.inv(R), "2", "2") for J in sampled(net, box, rng))
    assert found.lower is not None
    assert found.lower <= found.upper <= found.lower * (1 + 1e-6)
    assert truth <= found.upper * (1 + 1e-12)
    J = np.array([net.gradient(found.witness, e)[0, own] for e in np.eye(2)])  # type: ignore[arg-type]
    assert operator_norm(C @ J @ np.linalg.inv(R), "2", "2") == pytest.approx(found.lower, rel=1e-9)
    found.certificate.save(tmp_path / "proof.npz")
    assert verify(tmp_path / "proof.npz", net).proved


@pytest.mark.parametrize("norms", [("inf", "inf"), ("2", "2"), ("1", "2"), ("2", "inf")])
def test_diagonal_weights_of_the_whole_map(norms: tuple[str, str]) -> None:
    rng = np.random.default_rng(5)
    net, box = a_network(rng), Box(0.1 * rng.normal(size=3), 0.7)
    w, v = rng.uniform(0.2, 5.0, 3), rng.uniform(0.2, 5.0, 2)
    found = bound(
        net, box, output="all", norm=norms[0], output_norm=norms[1], input_weights=w, output_weights=v, work=2.0
    )
    truth = max(operator_norm(v[:, None] * J / w, *norms) for J in sampled(net, box, rng))
    assert found.lower is not None
    assert truth <= found.upper * (1 + 1e-12)
    assert found.upper <= found.lower * (1 + 1e-6)
    J = np.array([net.gradient(found.witness, e)[0] for e in np.eye(2)])  # type: ignore[arg-type]
    assert operator_norm(v[:, None] * J / w, *norms) == pytest.approx(found.lower, rel=1e-9)


@pytest.mark.parametrize("inputs", [None, [0, 2]])
def test_everywhere_and_on_balls(inputs: list[int] | None) -> None:
    rng = np.random.default_rng(3)
    net = a_network(rng)
    P = a_definite_matrix(rng, 3 if inputs is None else 2)
    own = [0, 1, 2] if inputs is None else inputs
    weights: dict[str, Any] = {"input_weights": P, "inputs": inputs, "method": "slopes", "time_limit": 5.0}
    far, near = (bound(net, r, output=0, norm="2", **weights) for r in (Everywhere(), Ball(np.zeros(3), 0.5)))
    points = 10.0 ** rng.uniform(-2, 2, (4000, 1)) * rng.normal(size=(4000, 3))
    R = np.linalg.cholesky(P).T
    g = np.linalg.norm(net.gradient(points, np.array([1.0, 0.0]))[:, own] @ np.linalg.inv(R), axis=1)
    assert g.max() <= far.upper
    assert far.lower is not None
    assert far.lower >= 0.9 * g.max()
    assert near.witness is not None
    assert Ball(np.zeros(3), 0.5).contains(near.witness)
    assert verify(far.certificate, net).proved
    assert verify(near.certificate, net).proved
    assert any("box around the ball" in note for note in near.notes)


def test_a_forged_frame_proves_nothing() -> None:
    rng = np.random.default_rng(1)
    net, box, w = a_network(rng), Box(np.zeros(3), 0.5), rng.uniform(0.5, 2.0, 3)
    P, Q = a_definite_matrix(rng, 3), a_definite_matrix(rng, 2)
    plain = bound(net, box, output="all", norm="2", input_weights=w, output_weights=[1.0, 3.0], work=0.5).certificate
    full = bound(net, box, output="all", norm="2", input_weights=P, output_weights=Q, work=0.5).certificate
    some = bound(net, box, output=0, norm="2", input_weights=P[:2, :2], inputs=[0, 1], work=0.5).certificate
    assert plain.frame is not None
    assert full.frame is not None
    assert some.frame is not None
    forged = [
        asking(plain, frame=replace(plain.frame, scale=plain.frame.scale * 0.99)),
        asking(plain, frame=replace(plain.frame, scale=plain.frame.scale * np.nan)),
        asking(plain, frame=replace(plain.frame, scale=-plain.frame.scale)),
        asking(plain, frame=replace(plain.frame, outcome=np.array([1.0, 2.9]))),
        asking(plain, frame=replace(plain.frame, outcome=None)),
        asking(plain, frame=replace(plain.frame, input_weights=w * 0.99)),
        asking(plain, frame=replace(plain.frame, input_weights=w[:2])),
        asking(plain, frame=replace(plain.frame, inputs=np.array([0, 7]))),
        asking(full, frame=replace(full.frame, scale=full.frame.scale * 0.999)),
        asking(full, frame=replace(full.frame, outcome=np.asarray(full.frame.outcome) * 0.999)),
        asking(full, frame=replace(full.frame, input_weights=-P)),
        asking(full, frame=replace(full.frame, scale=np.ones(3))),
        asking(some, frame=replace(some.frame, scale=some.frame.scale + 0.01)),
    ]
    for certificate in (plain, full, some):
        assert verify(certificate, net).proved
    for k, certificate in enumerate(forged):
        answer = verify(replace(certificate, claim=certificate.upper), net)
        assert not answer.proved, k


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6))
def test_factors_are_wide_enough_and_hardly_wider(seed: int, n: int) -> None:
    P = a_definite_matrix(np.random.default_rng(seed), n)
    S, C = spanning(P), covering(P)
    assert np.linalg.eigvalsh(S.T @ P @ S).min() >= 1 - 1e-12
    assert 1 - 1e-9 <= span_share(S, P) <= 1.0
    assert 1 - 1e-9 <= cover_share(C, P) <= 1.0
    assert not spans(S * (1 - 1e-9), P)
    assert not covers(C * (1 - 1e-9), P)


def test_rewriting_is_exact() -> None:
    rng = np.random.default_rng(2)
    net, x = a_network(rng), rng.normal(size=(5, 3))
    A, B, S = rng.normal(size=(4, 3)), rng.normal(size=(4, 2)), rng.normal(size=(3, 6))
    assert np.allclose(followed(net, B, A).forward(x), x @ A.T + net.forward(x) @ B.T, atol=1e-12)
    assert np.allclose(led(net, S).forward(x @ S), net.forward(x @ S @ S.T), atol=1e-12)
    powers = np.array([0.5, 4.0, 2.0**-40])
    assert scaled_inputs(net, powers).depth == net.depth  # exact, so no block is needed
    assert np.array_equal(scaled_inputs(net, powers).forward(x / powers), net.forward(x))
    assert scaled_inputs(net, np.array([0.3, 1.0, 1.0])).depth == net.depth + 1
    assert followed(net, np.diag([2.0, 0.25])).depth == net.depth
    assert followed(net, np.diag([2.0, 0.3])).depth == net.depth + 1
    tiny = Network.from_weights([net.affines[0].weight * 1e-300, *(a.weight for a in net.affines[1:])])
    assert scaled_inputs(tiny, powers).depth == tiny.depth + 1  # a digit would be lost


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"input_weights": [1.0, 2.0]}, "2 input weights; give 3"),
        ({"input_weights": [1.0, 0.0, 2.0]}, "input weight 1 is 0; weights must be > 0"),
        ({"input_weights": [1.0, -1.0, 2.0]}, "must be > 0"),
        ({"input_weights": [1.0, np.nan, 2.0]}, "finite"),
        ({"input_weights": "heavy"}, "must be numbers"),
        ({"input_weights": np.eye(3)}, "for the Euclidean norm"),
        ({"input_weights": -np.eye(3), "norm": "2"}, "not positive definite"),
        ({"input_weights": np.zeros((3, 3)), "norm": "2"}, "not positive definite"),
        ({"input_weights": np.triu(np.ones((3, 3))), "norm": "2"}, "not symmetric"),
        ({"input_weights": np.eye(2), "norm": "2"}, "has the shape"),
        ({"inputs": [3]}, "input 3 is out of range"),
        ({"inputs": [-1]}, "out of range"),
        ({"inputs": []}, "one or more"),
        ({"inputs": [1, 1]}, "twice"),
        ({"inputs": [0.5]}, "whole numbers"),
        ({"output_weights": [1.0, 1.0]}, "belong to the whole map"),
    ],
)
def test_what_is_refused(wish: dict[str, Any], said: str) -> None:
    net = a_network(np.random.default_rng(0))
    with pytest.raises(InputError, match=said):
        bound(net, Box(np.zeros(3), 0.1), output=0, **wish)


def test_words_and_json() -> None:
    net = a_network(np.random.default_rng(0))
    frame = Frame.of(net, parse_norms("2", "2"), np.eye(2), [1.0, 2.0], [0, 2])
    assert frame is not None
    assert frame.words(Norm("2", "2")) == (
        "|V (f(x) - f(x'))|_2 <= L |x - x'|_P for x, x' in the region that differ in inputs 0,2 only; "
        "V = diag(output weights); |t|_P = sqrt(t'Pt), P the input weights"
    )
    assert ranges([0, 1, 2, 7]) == "0:3,7"
    found = bound(net, Box(np.zeros(3), 0.1), output=0, inputs=[1], method="linear").to_dict()
    assert found["weights"]["inputs"] == [1]
    assert found["weights"]["meaning"].endswith("differ in inputs 1 only")
    assert bound(net, Box(np.zeros(3), 0.1), output=0, method="linear").to_dict()["weights"] is None
