"""Closed loops, limits, and the command line of weights."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lipcert import (
    Box,
    Everywhere,
    InputError,
    Network,
    bound,
    certify,
    closed_loop,
    contraction,
    largest_box,
    load,
    loop_weights,
    verify,
)
from lipcert.chart.numbers import rounded_down
from lipcert.cli import app
from lipcert.cli.question import parse_list
from lipcert.errors import FileFormatError
from lipcert.files.tables import read_table
from lipcert.rounding import Array

A = np.array([[0.9, 0.2], [-0.1, 0.8]])
B = np.array([[0.0], [0.3]])


def a_controller(inputs: int = 2, seed: int = 0) -> Network:
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=(6, inputs)), 0.3 * rng.normal(size=(1, 6))]
    return Network.from_weights(weights, [0.2 * rng.normal(size=6), np.zeros(1)])


def jacobians(net: Network, box: Box) -> Array:
    points = box.lo + (box.hi - box.lo) * np.random.default_rng(1).random((3000, box.size))
    return np.stack([net.gradient(points, e) for e in np.eye(net.outputs)], axis=1)


@pytest.mark.parametrize("seen", [False, True])
def test_loops_are_what_they_say(seen: bool) -> None:
    rng = np.random.default_rng(3)
    C = rng.normal(size=(3, 2)) if seen else None
    net = a_controller(3 if seen else 2)
    loop, x = closed_loop(net, A, B, C), rng.normal(size=(20, 2))
    inner = x if C is None else x @ C.T
    assert np.allclose(loop.forward(x), x @ A.T + net.forward(inner) @ B.T, atol=1e-13)
    box = Box(np.zeros(2), 0.5)
    P = np.array([[2.0, 0.3], [0.3, 1.0]])
    found = contraction(net, A, B, box, C=C, weights=P, work=2.0)
    R = np.linalg.cholesky(P).T
    sampled = max(np.linalg.norm(R @ J @ np.linalg.inv(R), 2) for J in jacobians(loop, box))
    assert found.lower is not None
    assert sampled <= found.upper * (1 + 1e-12)
    assert found.upper <= found.lower * (1 + 1e-6)
    assert verify(found.certificate, loop).proved


def test_weights_of_a_loop_make_it_contract() -> None:
    net, box = a_controller(), Box(np.zeros(2), 0.05)
    slow = np.array([[0.95, 0.8], [0.0, 0.9]])  # contracts, but not in the Euclidean norm
    P = loop_weights(net, slow, 0.05 * B, box)
    plain, weighted = (contraction(net, slow, 0.05 * B, box, weights=w, work=1.0) for w in (None, P))
    assert plain.lower is not None
    assert plain.lower > 1 > weighted.upper
    with pytest.raises(InputError, match="spectral radius"):
        loop_weights(net, 2 * np.eye(2), B, box)


@pytest.mark.parametrize(
    ("matrices", "said"),
    [
        ((np.eye(3), B), "B has the shape"),
        ((A[:1], B), "A has the shape"),
        ((np.eye(3), np.ones((3, 1))), "give C"),
        ((A, B, np.eye(3)), "C has the shape"),
        ((A * np.nan, B), "A must be a matrix of finite numbers"),
        (("x", B), "A must be a matrix of numbers"),
    ],
)
def test_matrices_that_do_not_fit(matrices: tuple[Any, ...], said: str) -> None:
    with pytest.raises(InputError, match=said):
        closed_loop(a_controller(), *matrices)


def test_a_limit_ends_the_work_when_it_is_decided() -> None:
    net, box = a_controller(seed=2), Box(np.zeros(2), 1.0)
    exact = bound(net, box, output=0, norm="2", work=5.0)
    above, under = (bound(net, box, output=0, norm="2", work=5.0, below=f * exact.upper) for f in (1.5, 0.5))
    assert above.upper < 1.5 * exact.upper
    assert under.lower is not None
    assert under.lower >= 0.5 * exact.upper
    assert max(above.work, under.work) <= exact.work
    with pytest.raises(InputError, match="below must be"):
        bound(net, box, output=0, below=0.0)


def test_the_largest_box() -> None:
    net = Network.from_weights([np.array([[1.0], [1.0]]), np.array([[1.0, 2.0]])], [np.array([0.0, -0.5]), np.zeros(1)])
    tried: list[float] = []
    found = largest_box(
        net, [0.0], below=2.0, most=4.1, output=0, method="exact", on_try=lambda radius, _: tried.append(radius)
    )
    assert 0.49 <= found.radius <= 0.5  # beyond, the second neuron turns on: 1 + 2
    assert found.refuted
    assert found.beyond <= found.radius * 1.01
    assert found.result is not None
    assert found.result.upper == pytest.approx(1.0)
    assert len(tried) < 20
    assert f"radius    {rounded_down(found.radius, 6)}   proved" in repr(found)
    assert found.to_dict()["refuted"] is True
    nowhere = largest_box(net, [0.0], below=0.5, most=4.0, output=0, method="linear")
    assert (nowhere.radius, nowhere.result) == (0.0, None)
    assert largest_box(net, [0.0], below=10.0, most=4.0, output=0, method="linear").radius == 4.0
    with pytest.raises(InputError, match="accuracy"):
        largest_box(net, [0.0], below=1.0, accuracy=-1.0)


@dataclass(frozen=True)
class Done:
    """What a command left."""

    code: int
    stdout: str
    stderr: str


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Run the command line in this process."""

    def call(*words: str) -> Done:
        code = app.run(words)
        said = capsys.readouterr()
        return Done(code, said.out, said.err)

    return call


def write(folder: Path) -> dict[str, str]:
    net = a_controller()
    net.save(folder / "net.npz")
    np.savetxt(folder / "a.csv", A, delimiter=",")
    np.savetxt(folder / "b.txt", B)
    np.save(folder / "w.npy", np.array([1.0, 2.0]))
    np.save(folder / "p.npy", np.array([[2.0, 0.3], [0.3, 1.0]]))
    names = ("net.npz", "a.csv", "b.txt", "w.npy", "p.npy")
    return {name.partition(".")[0]: str(folder / name) for name in names}


def test_command_line_of_weights(tmp_path: Path, run: Callable[..., Done]) -> None:
    files, proof = write(tmp_path), str(tmp_path / "proof.npz")
    asked = ("bound", files["net"], "--radius", "0.5", "--output", "0", "--work", "1", "--json")
    done = run(*asked, "--input-weights", files["w"], "--inputs", "0:2", "--certificate", proof)
    assert done.code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["weights"]["inputs"] == [0, 1]
    assert found["weights"]["input_weights"] == [1.0, 2.0]
    direct = bound(load(files["net"]), Box(np.zeros(2), 0.5), input_weights=[1.0, 2.0], inputs=[0, 1], work=1.0)
    assert found["upper"] == direct.upper
    assert run("verify", proof, "--network", files["net"]).code == 0
    for limit, code, word in ((2 * direct.upper, 0, "proved"), (direct.upper / 100, 1, "refuted")):
        done = run(*asked, "--below", str(limit))
        assert (done.code, json.loads(done.stdout)["is_below"]) == (code, word)
        assert word in run(*asked[:-1], "--below", str(limit)).stdout.splitlines()[-1]
    blind = run(*asked[:-1], "--below", str(direct.upper / 100), "--no-lower")
    assert (blind.code, blind.stdout.splitlines()[-1][:11]) == (1, "not decided")
    shown = run(*asked[:-1], "--norm", "2", "--input-weights", files["p"])
    assert "|x - x'|_P" in shown.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--inputs", "0:9"), "input 2 is out of range"),
        (("--inputs", "a"), "give numbers and ranges"),
        (("--inputs", "3:1"), "is empty"),
        (("--inputs", "0:99999999"), "more than"),
        (("--input-weights", "none.npy"), "none.npy"),
        (("--input-weights", "a"), "is for the Euclidean norm"),
        (("--input-weights", "a", "--norm", "2"), "not symmetric"),
        (("--output-weights", "w"), "whole map"),
    ],
)
def test_bad_weights_are_one_line(tmp_path: Path, run: Callable[..., Done], words: tuple[str, ...], said: str) -> None:
    files = write(tmp_path)
    proof = tmp_path / "proof.npz"
    typed = [files.get(word, word) for word in words]
    done = run("bound", files["net"], "--radius", "0.5", "--output", "0", *typed, "--certificate", str(proof))
    assert done.code == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not proof.exists()


def test_command_line_of_loops(tmp_path: Path, run: Callable[..., Done]) -> None:
    files, saved, proof = write(tmp_path), str(tmp_path / "loop.npz"), str(tmp_path / "proof.npz")
    asked = ("loop", files["net"], "--a", files["a"], "--b", files["b"], "--radius", "0.5", "--weights", "auto")
    done = run(*asked, "--save", saved, "--certificate", proof, "--json")
    found = json.loads(done.stdout)
    assert found["contracts"] == (done.code == 0)
    assert run("verify", proof, "--network", saved).code == 0
    shown = run(*asked, "--largest")
    assert "radius" in shown.stdout
    refused = run("loop", files["net"], "--a", files["a"], "--b", files["a"], "--radius", "0.5")
    assert refused.code == 2
    assert "B has the shape" in refused.stderr
    for more in (["--output", "0"], ["--versus", "0", "1"], ["--output-norm", "2"]):
        refused = run(*asked, *more)
        assert refused.code == 2
        assert refused.stderr.startswith(f"lipcert: {more[0]}: the whole loop is bounded, in one norm")
    np.savetxt(tmp_path / "growing.csv", 3.0 * np.eye(2), delimiter=",")
    growing = ("loop", files["net"], "--a", str(tmp_path / "growing.csv"), *asked[4:])
    done = run(*growing)
    assert (done.code, done.stdout[:11]) == (1, "not decided")
    assert "spectral radius" in done.stdout
    assert json.loads(run(*growing, "--json").stdout)["is_below"] == "open"  # floats refute nothing
    assert run(*growing, "--below", "9").code == 2


def test_lists_and_tables(tmp_path: Path) -> None:
    assert parse_list("--inputs", "0:3, 7") == [0, 1, 2, 7]
    (tmp_path / "t.csv").write_text("# a comment\n1, 2\n3 4\n")
    assert read_table(tmp_path / "t.csv").tolist() == [[1.0, 2.0], [3.0, 4.0]]
    (tmp_path / "v.txt").write_text("1\n2\n")
    assert read_table(tmp_path / "v.txt").tolist() == [1.0, 2.0]
    for text in ("", "1 2\n3", "a b", "nan 1", "1e999"):
        (tmp_path / "bad.csv").write_text(text)
        with pytest.raises(FileFormatError):
            read_table(tmp_path / "bad.csv")
    np.save(tmp_path / "words.npy", np.array(["a"]))
    with pytest.raises(FileFormatError, match="real numbers"):
        read_table(tmp_path / "words.npy")


def test_results_show_themselves(tmp_path: Path) -> None:
    net = a_controller()
    found = bound(net, Everywhere(), output=0, method="product")
    assert repr(found).startswith("Lipschitz constant of score 0 in the inf-norm, on the whole input space\n  upper")
    assert len(repr(found).splitlines()) < 12
    assert "<table>" in found._repr_html_()
    found.save(tmp_path / "found.json")
    assert json.loads((tmp_path / "found.json").read_text())["upper"] == found.upper
    found.save(tmp_path / "found.npz")
    assert verify(tmp_path / "found.npz", net).proved
    with pytest.raises(InputError, match=r"\.json"):
        found.save(tmp_path / "found.txt")
    classes = Network.from_weights([np.eye(2), np.eye(2)], [np.ones(2), np.zeros(2)])
    certified = certify(classes, np.array([[0.0, 1.0]]), labels=np.array([1]), radius=[0.1], method="linear")
    assert repr(certified).startswith("Certification of 1 input within 0.1 in the inf-norm\n  classified right  1 of 1")
    assert "1 certified" in certified._repr_html_()
