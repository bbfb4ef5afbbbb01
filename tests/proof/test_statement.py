"""A certificate states what it proves: one sentence from its arrays, for those who make it and those who check it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lipcert
from lipcert import Ball, Box, Everywhere, InputError, Network, Polytope
from lipcert.cli.app import run
from lipcert.errors import FileFormatError
from lipcert.problem.frame import Frame
from lipcert.problem.norms import Norm
from lipcert.problem.question import LargestNorm, Question, Statement, read_entries
from lipcert.problem.region import Region
from lipcert.proof.file import load_proof
from tests.conftest import ROOT
from tests.problems import net_of

OLD = ROOT / "tests" / "data" / "version-1.0.0"
KINDS = ("bound", "cells", "jacobian", "margins", "union", "polynomial")
FILES = [path for kind in KINDS for path in sorted((OLD / kind).glob("*.npz"))]
ABOUT_NETWORKS = [path for path in FILES if path.parent.name != "polynomial"]
WEIGHTED = [path for path in ABOUT_NETWORKS if "weight" in path.stem or path.stem in ("matrix", "loop")]
SOME_INPUTS = [path for path in ABOUT_NETWORKS if "inputs" in path.stem and path.parent.name != "jacobian"]


def old_network(path: Path) -> Path:
    with np.load(path) as file:
        sha256 = str(file["network"]) if "network" in file.files else None
    if sha256 is None:  # several regions: each part is a file of its own
        return old_network_of(load_proof(path).statement)
    return OLD / "networks" / f"{sha256[:12]}.npz"


def old_network_of(statement: Statement) -> Path:
    return OLD / "networks" / f"{str(statement.arrays['network'])[:12]}.npz"


def checked(path: Path) -> lipcert.Verification:
    if path.parent.name == "polynomial":
        from lipcert.polynomial.files import load_problem

        return lipcert.verify(path, load_problem(path.with_suffix(".pop")).problem)
    return lipcert.verify(path, old_network(path))


@pytest.mark.parametrize("path", WEIGHTED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_old_files_with_weights_say_so(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", str(path), "--network", str(old_network(path))]) == 0
    said = " ".join(capsys.readouterr().out.split())
    if "scores" in path.stem:
        assert "scores weighted by 0.5, -1, 2" in said
    else:
        assert "weighted by" in said or "matrix P" in said
        assert "<= L" in said
        assert run(["verify", str(path), "--network", str(old_network(path)), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["weights"]["meaning"]


@pytest.mark.parametrize("path", SOME_INPUTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_old_files_about_some_inputs_say_so(path: Path) -> None:
    assert "alone change" in checked(path).statement.sentence  # type: ignore[union-attr]


# Questions that differ have statements that differ

few = st.floats(-2.0, 2.0, allow_subnormal=False).map(lambda x: round(x, 3))
sizes = st.floats(0.1, 2.0).map(lambda x: round(x, 3))


@st.composite
def regions(draw: st.DrawFn) -> Region:
    center, radius = [draw(few), draw(few)], draw(sizes)
    kind = draw(st.sampled_from(["box", "clip", "ball", "cut", "everywhere"]))
    match kind:
        case "box":
            return Box(center, radius)
        case "clip":
            return Ball(center, radius, (-3.0, 3.0))
        case "ball":
            return Ball(center, radius)
        case "cut":
            return Polytope(Box(center, radius), np.array([[1.0, draw(few)]]), np.array([draw(few)]))
        case _:
            return Everywhere()


@st.composite
def questions(draw: st.DrawFn) -> dict[str, Any]:
    net = net_of(2, 3, 2)
    out = draw(st.sampled_from([None, "inf", "2"]))
    norm = Norm(draw(st.sampled_from(["inf", "2"])), out)
    c = np.eye(2) if out else np.array([draw(few), 1.0])
    weights = draw(st.none() | st.tuples(sizes, sizes))
    theirs = draw(st.none() | st.tuples(sizes, sizes)) if out else None
    inputs = draw(st.none() | st.sampled_from([[0], [1]]))
    frame = Frame.of(net, norm, weights, theirs, inputs)
    places = draw(st.lists(regions(), min_size=1, max_size=2))
    return {"network": net.sha256, "regions": tuple(places), "norm": norm, "c": c, "frame": frame}


def as_numbers(question: dict[str, Any]) -> tuple[Any, ...]:
    """The question as plain numbers, by other means than its statement."""
    frame = question["frame"]
    weights = None if frame is None else frame.to_dict(question["norm"])
    places = [region.to_dict() for region in question["regions"]]
    numbers = [
        {k: np.broadcast_to(v, (2,)).tolist() if k in ("lo", "hi", "center") else v for k, v in place.items()}
        for place in places
    ]
    return question["norm"], (question["c"] + 0.0).tolist(), json.dumps(weights), json.dumps(numbers)


@settings(max_examples=150, deadline=None)
@given(questions(), questions())
def test_questions_that_differ_have_statements_that_differ(one: dict[str, Any], other: dict[str, Any]) -> None:
    first, second = Question(**one), Question(**other)
    assert (first.sha256 == second.sha256) == (as_numbers(one) == as_numbers(other))
    if first.sha256 == second.sha256:
        assert first.sentence == second.sentence


@settings(max_examples=100, deadline=None)
@given(questions())
def test_a_question_is_read_from_its_own_arrays(given: dict[str, Any]) -> None:
    asked = Question(**given)
    again = Question.read({**asked.arrays, **asked.hints}, LargestNorm(), len(asked.regions))
    assert again.sha256 == asked.sha256
    assert again.sentence == asked.sentence
    assert again.frame is None or again.frame.arrays().keys() == asked.frame.arrays().keys()  # type: ignore[union-attr]


def test_questions_about_entries_and_scores_are_read_from_their_arrays() -> None:
    cut = Polytope(Box([0.1, 0.2], 1.0), np.array([[1.0, -1.0]]), np.array([0.5]))
    for asked in (
        Question.of_entries("n", cut, np.array([0, 2]), np.array([1])),
        Question.of_scores("n", Box([0.1, 0.2], 1.0), np.array([[1.0, -1.0], [0.5, 2.0]])),
    ):
        arrays = {**asked.arrays, **asked.hints}
        objective = read_entries(arrays) if "scores" in arrays else asked.objective
        again = Question.read(arrays, objective)
        assert again.sha256 == asked.sha256
        assert (again.sentence, again.plain) == (asked.sentence, asked.plain)


def test_one_number_changes_the_statement() -> None:
    """Also where the words shorten a long list."""
    center = np.linspace(0, 1, 30)
    box = Box(center, 0.1)
    plain = Question("n", (box,), Norm("inf"), np.ones(1))
    center[17] += 1e-15
    moved = Question("n", (Box(center, 0.1),), Norm("inf"), np.ones(1))
    assert plain.sentence == moved.sentence
    assert plain.sha256 != moved.sha256


# Every verb that stores a proof: the sentence of `verify` is that of the producer


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("statements")
    net_of(2, 4, 2).save(folder / "net.npz")
    net_of(2, 4, 1).save(folder / "controller.npz")
    tables = {"w": [[0.5, 40.0]], "v": [[3.0, 0.1]], "p": [[2.0, 0.5], [0.5, 1.0]], "sides": [[1.0, 1.0, 0.7]]}
    tables |= {"a": [[0.9, 0.2], [0.0, 0.7]], "b": [[0.0], [0.3]]}
    for name, rows in tables.items():
        np.savetxt(folder / f"{name}.csv", rows, delimiter=",")
    (folder / "disk.pop").write_text("minimize x*y\nsubject to\nx^2 + y^2 <= 1\n")
    (folder / "two.vnnlib").write_text(
        "(declare-const X_0 Real)\n(declare-const X_1 Real)\n(declare-const Y_0 Real)\n(assert (or "
        "(and (>= X_0 0) (<= X_0 0.2) (>= X_1 0) (<= X_1 0.3)) "
        "(and (>= X_0 1) (<= X_0 1.2) (>= X_1 0) (<= X_1 0.1))))\n"
    )
    return folder


BOX = ["--radius", "0.3", "--center", "0.4,0.7"]
BOUND = ["bound", "net.npz", *BOX, "--method", "linear"]
VERBS = {
    "bound": [*BOUND, "--output", "0"],
    "difference": [*BOUND, "--versus", "0", "1"],
    "clip": [*BOUND, "--output", "0", "--clip", "0", "0.9"],
    "ball": [*BOUND, "--output", "0", "--ball", "--norm", "2"],
    "half-spaces": [*BOUND, "--output", "0", "--halfspaces", "sides.csv"],
    "weights": [*BOUND, "--output", "0", "--input-weights", "w.csv"],
    "inputs": [*BOUND, "--output", "0", "--inputs", "1"],
    "map": [*BOUND, "--output", "all", "--norm", "2", "--output-norm", "inf"],
    "output weights": [*BOUND, "--output", "all", "--output-weights", "v.csv"],
    "matrix": [*BOUND, "--output", "all", "--norm", "2", "--input-weights", "p.csv", "--output-weights", "p.csv"],
    "everywhere": ["bound", "net.npz", "--global", "--output", "0", "--method", "product"],
    "auto": ["bound", "net.npz", *BOX, "--output", "0", "--work", "0.2", "--input-weights", "w.csv"],
    "several regions": ["bound", "net.npz", "--vnnlib", "two.vnnlib", "--output", "0", "--method", "linear"],
    "cells": ["cells", "net.npz", *BOX, "--output", "0", "--cells", "2", "--input-weights", "w.csv"],
    "jacobian": ["jacobian", "net.npz", *BOX, "--work", "0.1", "--inputs", "1"],
    "loop": ["loop", "controller.npz", "--a", "a.csv", "--b", "b.csv", "--radius", "0.3", "--weights", "auto"],
    "pop": ["pop", "disk.pop"],
}


@pytest.mark.parametrize("verb", VERBS)
def test_verify_says_what_the_producer_said(
    verb: str, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(here)
    command = [*VERBS[verb], "--certificate", "proof.npz"]
    command += ["--save", "loop.npz"] if verb == "loop" else []
    run(command)
    said = " ".join(capsys.readouterr().out.split())
    network = "loop.npz" if verb == "loop" else command[1]
    about = ["--problem" if verb == "pop" else "--network", network]
    assert run(["verify", "proof.npz", *about, "--json"]) == 0
    statement = json.loads(capsys.readouterr().out)["statement"]
    assert " ".join(statement["sentence"].split()) in said
    assert verb == "pop" or statement["sha256"][:16] in said
    assert statement["meaning"] is None or " ".join(statement["meaning"].split()) in said
    assert run(["verify", "proof.npz", *about]) == 0
    assert " ".join(statement["sentence"].split()) in " ".join(capsys.readouterr().out.split())
    run([*command, "--json"])
    assert json.loads(capsys.readouterr().out)["statement"] == statement


def test_weights_are_read_from_the_file_not_from_the_caller(here: Path) -> None:
    """With large weights any small number is a true bound; then the sentence must say so."""
    result = lipcert.bound(here / "net.npz", Box([0.4, 0.7], 0.3), output=0, input_weights=[1e6, 1e6], method="linear")
    result.certificate.save(here / "small.npz")
    answer = lipcert.verify(here / "small.npz", here / "net.npz")
    assert answer.proved
    assert answer.upper < 1e-4
    assert "weighted by (1e+06, 1e+06)" in repr(answer)


def test_words_that_say_something_else_are_refused(tmp_path: Path) -> None:
    net = net_of(2, 3, 1)
    arrays = lipcert.bound(net, Box([0.0, 0.0], 1.0), method="linear").certificate.arrays()
    assert bytes(arrays["sentence"].tolist()).decode().startswith("Lipschitz constant of score 0 in the inf-norm")
    lie = np.frombuffer(b"Lipschitz constant of score 0, on the whole input space", dtype=np.uint8)
    np.savez(tmp_path / "lie.npz", allow_pickle=False, **(arrays | {"sentence": lie}))
    with pytest.raises(FileFormatError, match="not what its arrays say"):
        lipcert.verify(tmp_path / "lie.npz", net)


# One `verify` for all kinds


def test_verify_takes_results_certificates_and_paths(tmp_path: Path) -> None:
    net, box = net_of(2, 3, 1), Box([0.1, 0.2], 0.5)
    found: dict[str, Any] = {
        "constant": lipcert.bound(net, box, method="linear"),
        "cells": lipcert.partition(net, box, cells=2),
        "jacobian": lipcert.jacobian(net, box, work=0.1),
        "union": lipcert.bound_union(net, [box, Box([2.0, 2.0], 0.1)], method="linear"),
    }
    for kind, result in found.items():
        certificate = result.certificate
        certificate.save(tmp_path / f"{kind}.npz")
        assert load_proof(tmp_path / f"{kind}.npz").kind == kind
        for form in (result, certificate, tmp_path / f"{kind}.npz", str(tmp_path / f"{kind}.npz")):
            answer = lipcert.verify(form, net)
            assert answer.proved, answer.reason
            assert answer.statement is not None
            assert answer.statement.sentence in repr(result)
            assert repr(answer).startswith("Certificate proved")
            assert "Certificate proved" in answer._repr_html_()
    x = lipcert.Polynomial.variable(0)
    problem = lipcert.PolynomialProblem(x * x - x, (1 - x * x,))
    least = lipcert.minimize(x * x - x, [1 - x * x])
    assert lipcert.verify(least, problem).proved


@pytest.mark.parametrize("thing", [3, None, object(), net_of(2, 3, 1), {}])
def test_verify_refuses_what_is_no_certificate_in_words(thing: Any) -> None:
    with pytest.raises(InputError, match="is no certificate"):
        lipcert.verify(thing, net_of(2, 3, 1))


def test_a_certificate_of_a_polynomial_problem_needs_a_problem() -> None:
    with pytest.raises(InputError, match="give the problem"):
        lipcert.verify(OLD / "polynomial" / "disk.npz", net_of(2, 3, 1))


SEARCHES = ("solver", "method", "witness", "jobs", "cells", "entries", "robustness")


@pytest.mark.parametrize("kind", ["bound", "cells", "jacobian", "margins", "union"])
def test_the_command_verify_loads_no_solver_and_no_search(kind: str) -> None:
    path = sorted((OLD / kind).glob("*.npz"))[0]
    code = (
        "import sys; from lipcert.cli.app import run; code = run(sys.argv[1:]); "
        "print(*sorted({m.split('.')[1] for m in sys.modules if m.startswith('lipcert.')})); sys.exit(code)"
    )
    command = [sys.executable, "-c", code, "verify", str(path), "--network", str(old_network(path))]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    rooms = set(answer.stdout.split("\n")[-2].split())
    assert not rooms & set(SEARCHES), rooms & set(SEARCHES)
    assert "proof" in rooms
    assert isinstance(lipcert.load(old_network(path)), Network)
