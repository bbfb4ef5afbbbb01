"""Certified data sets: decisions against exact arithmetic, proofs against attacks, result files, resuming."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lipcert
import lipcert.robustness.pairs as pairs_module
import lipcert.robustness.refine as refine_module
from lipcert import Box, Everywhere, InputError, MethodError, Network, SoundnessError, bound, certify, verify
from lipcert.budget import Budget
from lipcert.cli.app import run
from lipcert.jobs import Answer
from lipcert.method.result import Result
from lipcert.problem.norms import INF
from lipcert.proof.margins import linear_margins
from lipcert.robustness.attack import Perturbation, another_class_wins, attack
from lipcert.robustness.decision import certified_radii, class_scores, classify, decide, reach_in_region, shared_region
from lipcert.robustness.pairs import PairConstant, matrix, method_and_region, pair_constant, pair_pieces
from lipcert.robustness.refine import OpenInput, SharedRadii, against, prove_class, refine_pieces
from lipcert.robustness.stored import read_arrays
from lipcert.rounding import Array
from lipcert.search.progress import Status
from lipcert.search.settings import Settings
from tests.job_pieces import until


def small_net(seed: int, outputs: int = 3, hidden: tuple[int, ...] = (6,), inputs: int = 3) -> Network:
    rng = np.random.default_rng(seed)
    widths = (inputs, *hidden, outputs)
    weights = [rng.normal(size=(b, a)) for a, b in pairwise(widths)]
    return Network.from_weights(weights, [0.3 * rng.normal(size=len(w)) for w in weights])


def exact_scores(net: Network, x: Array) -> list[Fraction]:
    values = [Fraction(float(e)) for e in x]
    for k, affine in enumerate(net.affines):
        rows = affine.weight.tolist()
        values = [
            sum((Fraction(w) * v for w, v in zip(row, values, strict=True)), Fraction(b))
            for row, b in zip(rows, affine.bias.tolist(), strict=True)
        ]
        if k < net.depth:
            values = [max(v, Fraction(0)) for v in values]
    return values if len(values) > 1 else [Fraction(0), *values]


@pytest.mark.parametrize("outputs", [1, 3])
def test_scores_and_radii_against_exact_arithmetic(outputs: int) -> None:
    net = small_net(outputs, outputs, (5, 4))
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(size=(40, 3)), np.zeros((1, 3)), 1e-310 * np.ones((1, 3)), 1e12 * np.eye(3)])
    scores, classified = class_scores(net, points), classify(net, points, None)
    L = np.abs(rng.normal(size=(max(2, outputs),) * 2)) + 0.1
    L = L + L.T
    radii = certified_radii(classified, L, np.full(len(points), np.inf))
    for k, x in enumerate(points):
        exact = exact_scores(net, x)
        ends = zip(scores.lo[k], exact, scores.hi[k], strict=True)
        assert all(Fraction(lo) <= e <= Fraction(hi) for lo, e, hi in ends)
        r = int(classified.labels[k])
        ratios = [(exact[r] - e) / Fraction(float(L[r, i])) for i, e in enumerate(exact) if i != r]
        assert radii[k] < min(ratios) or radii[k] == 0
        assert radii[k] >= float(min(ratios)) * (1 - 1e-9) - 1e-12


def test_a_ball_that_touches_is_not_certified() -> None:
    """score_i - score_r + eps L < 0 is strict: lead 0.5, L = 1, eps = 0.5 ends in a tie."""
    net = Network.from_weights([np.eye(2)])
    classified = classify(net, np.array([[0.75, 0.25], [0.5, 0.5]]), np.array([0, 0]))
    radii = certified_radii(classified, np.array([[0.0, 1.0], [1.0, 0.0]]), np.full(2, np.inf))
    assert 0.4999999 < radii[0] < 0.5
    assert radii[1] == 0.0  # a tie has no radius
    assert decide(0.5, radii, np.full(2, np.inf), classified.wrong).tolist() == [0, 0]


def test_unknown_and_zero_constants() -> None:
    net = Network.from_weights([np.eye(3)])
    classified = classify(net, np.array([[3.0, 1.0, 2.0]]), None)
    L = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
    assert 0.99 < certified_radii(classified, L, np.array([np.inf]))[0] < 1.0
    L[0, 2] = L[2, 0] = np.inf  # not proved
    assert certified_radii(classified, L, np.array([np.inf]))[0] == 0.0
    L[0, 2] = L[2, 0] = 0.0
    assert certified_radii(classified, L, np.array([0.1]))[0] == 0.1  # never beyond the region
    for damaged in (np.nan, -1.0, None):
        known = [PairConstant(i, j, damaged if i else 1.0, None, "tight", 0.0) for i, j in ((0, 1), (0, 2), (1, 2))]
        assert np.isinf(matrix(tuple(known), 3)[1, 2])


def test_the_shared_region_holds_every_ball() -> None:
    inputs = np.array([[0.0, 0.3], [0.7, 1.0]])
    region = shared_region(inputs, 0.1, (0.0, 1.0), False)
    assert np.all(region.lo == -0.1)
    assert np.all(region.hi >= 1.1)
    assert np.all(reach_in_region(inputs, region, 0.1, False) >= 0.1)
    own = shared_region(inputs, 0.1, None, False)
    assert np.all(own.lo <= inputs.min(axis=0) - 0.1)
    assert np.all(own.hi[1] >= 1.1)
    assert shared_region(inputs, 0.1, (0.0, 1.0), True) == Box.from_bounds(np.zeros(2), np.ones(2))
    assert np.all(np.isinf(reach_in_region(inputs, Everywhere(), 0.1, False)))


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize(("outputs", "hidden"), [(3, (6,)), (1, (6,)), (3, (4, 4))])
def test_certified_is_never_attacked(outputs: int, hidden: tuple[int, ...], clip: bool) -> None:
    """Constants, refinement and attacks agree with each other and with random points of the balls."""
    net = small_net(7, outputs, hidden)
    rng = np.random.default_rng(1)
    inputs = rng.uniform(0, 1, (24, 3))
    result = certify(net, inputs, radius=[0.02, 0.1, 0.3], domain=(0.0, 1.0), clip=clip, method="interval", refine=30.0)
    labels = classify(net, inputs, None).labels
    for k in range(len(inputs)):
        r = float(result.certified_radius[k])
        cloud = inputs[k] + r * rng.uniform(-1, 1, (300, 3))
        cloud = np.clip(cloud, 0, 1) if clip else cloud
        assert not another_class_wins(net, cloud, np.full(300, labels[k])).any()
        example = result.counterexample(k)
        if example is not None:
            assert np.abs(example - inputs[k]).max() <= result.attack_radius[k] <= 0.3
            assert another_class_wins(net, example[None, :], labels[k : k + 1])[0]
            assert not clip or (example.min() >= 0 and example.max() <= 1)
    for r in result.radii:
        assert sum(result.counts(r).values()) == len(inputs)
    assert set(result.words()) <= {"certified", "attacked", "undecided"}
    assert result.refined.any()
    # On networks this small the margin relaxation and the attacks leave next to nothing open.
    assert result.counts(0.1)["undecided"] <= 2


def test_refinement_certifies_more_than_the_constants() -> None:
    net = small_net(3)
    inputs = np.random.default_rng(2).uniform(0, 1, (30, 3))
    plain = certify(net, inputs, radius=0.1, domain=(0.0, 1.0), method="interval", attacks=False)
    more = certify(net, inputs, radius=0.1, domain=(0.0, 1.0), method="interval", refine=30.0)
    assert np.all(more.certified_radius >= plain.certified_radius)
    assert more.counts(0.1)["certified"] > plain.counts(0.1)["certified"]


def test_linear_margins_hold() -> None:
    net = small_net(5, 4, (5, 5))
    box = Box(np.array([0.2, -0.4, 0.1]), 0.2)
    rows = np.array([against(net, 1, i) for i in (0, 2, 3)])
    _, upper = linear_margins(net, box, rows)
    cloud = np.random.default_rng(0).uniform(box.lo, box.hi, (4000, 3))
    assert np.all(net.forward(cloud) @ rows.T <= upper + 1e-12)
    verdict = prove_class(net, box, 1, np.array([0, 2, 3]), Budget.of_work(10.0))
    wins = np.all(net.forward(cloud) @ rows.T < 0)
    assert wins or not verdict.proved


def test_a_lying_constant_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A constant that is too small certifies what an attack breaks: fatal, never a result."""

    def lie(_net: Network, _region: Any, pair: tuple[int, int], *_rest: Any) -> Answer:
        i, j = pair
        return Answer({"i": i, "j": j, "upper": 1e-6, "lower": None, "method": "lie", "status": "done", "notes": []})

    monkeypatch.setattr(pairs_module, "pair_constant", lie)
    with pytest.raises(SoundnessError, match="counterexample"):
        certify(small_net(7), np.random.default_rng(1).uniform(0, 1, (40, 3)), radius=0.3)


def test_a_contradiction_inside_a_piece_is_fatal(monkeypatch: pytest.MonkeyPatch) -> None:
    def contradict(*_arguments: Any) -> Answer:
        raise SoundnessError("upper below lower")

    monkeypatch.setattr(pairs_module, "pair_constant", contradict)
    with pytest.raises(SoundnessError, match="pair-0-1"):
        certify(small_net(7), np.zeros((1, 3)), radius=0.3)


def test_a_piece_that_fails_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its constant nothing is certified, and the rest of the answer stands."""

    def fail(net: Network, region: Any, pair: tuple[int, int], *rest: Any) -> Answer:
        if pair == (0, 1):
            raise MemoryError
        return pair_constant(net, region, pair, *rest)

    monkeypatch.setattr(pairs_module, "pair_constant", fail)
    inputs = np.random.default_rng(1).uniform(0, 1, (20, 3))
    result = certify(small_net(7), inputs, radius=0.01, method="interval")
    assert [name for name, _ in result.failed] == ["pair-0-1"]
    assert result.to_dict()["failed"][0]["error"].startswith("out of memory")
    assert np.all(result.certified_radius[result.labels != 2] == 0)
    assert len(result.pairs) == 2


def test_pieces_can_be_sent_away() -> None:
    net = small_net(7)
    classified = classify(net, np.full((1, 3), 0.2), None)
    balls = OpenInput.most_promising_first(
        np.full((1, 3), 0.2), classified, SharedRadii(np.zeros((1, 3))), np.array([np.inf]), (0.1,), ((0.0, 1.0), INF)
    )
    for piece in [
        *pair_pieces(net, Box(np.zeros(3), 1.0), Settings(method="interval")),
        *refine_pieces(net, balls, 9.0),
    ]:
        again = pickle.loads(pickle.dumps(piece))
        assert again.work(*again.arguments)


def test_attacks_find_the_nearest_side_of_a_line() -> None:
    """x_0 > x_1 decides: the distance to the line is half the difference in the infinity norm."""
    net = Network.from_weights([np.eye(2)])
    found = attack(net, np.array([[0.6, 0.4], [0.9, 0.1]]), np.array([0, 0]), Perturbation(0.2))
    assert 0.1 < found.radius[0] < 0.101
    assert np.isinf(found.radius[1])
    assert found.places.tolist() == [0]


def test_methods_and_regions() -> None:
    net = small_net(0)
    box = Box(np.zeros(3), 1.0)
    assert method_and_region(net, box, Settings(method="shor")) == ("shor", Everywhere())
    assert method_and_region(net, box, Settings(method="tight")) == ("tight", box)
    assert method_and_region(small_net(0, inputs=400), Box(np.zeros(400), 1.0), Settings())[0] == "shor"
    wide, large = small_net(0, inputs=400), Box(np.zeros(400), 1.0)
    assert method_and_region(wide, large, Settings(method="tight")) == ("tight", Everywhere())
    assert method_and_region(wide, Box(np.full(400, 9.0), 1e-3), Settings(method="tight"))[1] != Everywhere()
    with pytest.raises(MethodError, match="unknown method"):
        certify(net, np.zeros((1, 3)), radius=0.1, method="hr3")
    with pytest.raises(MethodError, match="one hidden layer"):
        certify(small_net(0, 3, (4, 4)), np.zeros((1, 3)), radius=0.1, method="shor")
    answer = pair_constant(net, box, (0, 2), Settings(method="hr2", time_limit=5.0))
    assert answer.value["lower"] <= answer.value["upper"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"radius": 0.0}, "positive"),
        ({"radius": []}, "radius has 0 numbers; give 1 to 1000"),
        ({"radius": "wide"}, "number"),
        ({"domain": (1.0, 0.0)}, "low <= high"),
        ({"domain": (0.2, 1.0)}, "outside the domain"),
        ({"labels": [0, 1]}, "2 labels for 4 inputs"),
        ({"labels": [0, 1, 2, 3]}, "classes are 0 to 2"),
        ({"labels": [0.5, 1, 2, 0]}, "whole numbers"),
        ({"inputs": np.zeros((4, 5))}, "takes 3"),
        ({"inputs": np.full((4, 3), np.nan)}, "not finite"),
        ({"inputs": np.zeros(3)}, "one row"),
        ({"clip": True}, "domain"),
        ({"refine": -1.0}, "refine"),
        ({"time_limit": 0.0}, "time_limit must be"),
    ],
)
def test_bad_questions(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"inputs": np.zeros((4, 3)), "labels": None, "radius": 0.1, **change}
    inputs, labels = arguments.pop("inputs"), arguments.pop("labels")
    with pytest.raises(InputError, match=message):
        certify(small_net(0), inputs, labels, **arguments)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    small_net(7).save(tmp_path / "net.npz")
    rng = np.random.default_rng(1)
    np.save(tmp_path / "points.npy", rng.uniform(0, 1, (12, 3)))
    np.save(tmp_path / "labels.npy", rng.integers(0, 3, 12))
    return tmp_path


def test_the_command_and_its_files(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = str(files / "job")
    command = ["certify", str(files / "net.npz"), str(files / "points.npy"), "--labels", str(files / "labels.npy")]
    command += ["--radius", "0.1,0.02", "--domain", "0", "1", "--method", "hr2", "--out", job]
    assert run([*command, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer == json.loads((files / "job" / "result.json").read_text())
    assert answer["radii"] == [0.02, 0.1]
    assert [(p["i"], p["j"]) for p in answer["pairs"]] == [(0, 1), (0, 2), (1, 2)]
    assert answer["counts"]["correct"] + answer["counts"]["misclassified"] == 12
    for row in answer["per_radius"]:
        assert row["certified"] + row["attacked"] + row["undecided"] == answer["counts"]["correct"]
    net = small_net(7)
    for pair in answer["pairs"]:
        assert verify(files / "job" / pair["certificate"], net).proved
    arrays = read_arrays(files / "job" / "arrays.npz")
    assert arrays["status"].dtype == np.uint8
    assert arrays["images"].shape == (12, 3)
    assert np.all(arrays["certified_radius"][arrays["status"] == 3] == 0)
    # The same folder again: refused without --resume, the same answer with it, another question refused.
    assert run(command) == 2
    assert "--resume" in capsys.readouterr().err
    assert run([*command, "--resume"]) == 0
    assert "certified" in capsys.readouterr().out
    assert run([*command, "--resume", "--recheck", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert np.allclose([p["upper"] for p in again["pairs"]], [p["upper"] for p in answer["pairs"]], rtol=1e-9)
    first, second = (files / "job" / answer["pairs"][k]["certificate"] for k in (0, 1))
    first.write_bytes(second.read_bytes())  # a record with the certificate of another pair
    folder_says = json.loads((files / "job" / "pieces" / "pair-0-1.json").read_text())["value"]["upper"]
    assert folder_says == answer["pairs"][0]["upper"]
    assert run([*command, "--resume", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["pairs"][0]["upper"] == answer["pairs"][0]["upper"]  # done again
    assert again["notes"] == ["pair-0-1 is done again: its certificate is about something else"]
    assert verify(first, net).proved
    assert run([*command, "--resume", "--first", "3"]) == 2  # other data
    assert "another job" in capsys.readouterr().err
    assert run([*command, "--resume", "--clip"]) == 2
    assert "another job" in capsys.readouterr().err
    assert run([*command, "--resume", "--time-limit", "7"]) == 0  # the same job with more or less time
    assert "note: the job began with a time limit of 60 s for each constant; those" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--radius", "far"], "give a number"),
        (["--radius", "0.1,-1"], "--radius -1: a radius is a positive finite number"),
        (["--radius", "0.1", "--resume"], "--out"),
        (["--radius", "0.1", "--recheck"], "--out"),
        (["--radius", "0.1", "--labels", "no.npy"], "no such file"),
        (["--radius", "0.1", "--scale", "x"], "1/255"),
        (["--radius", "0.1", "--domain", "0", "0.1"], "outside the domain"),
        (["--radius", "0.1", "--method", "best"], "unknown method"),
        (["--radius", "0.1", "--solver", "best"], "unknown solver"),
        (["--radius", "0.1", "--workers", "0"], "workers"),
        (["--radius", "0.1", "--clip"], "--clip needs a domain to clip to; give --clip LO HI, or --domain LO HI"),
        (["--radius", "0.1", "--time-limit", "0"], "--time-limit must be"),
        (["--radius", "0.1", "--refine", "-1"], "--refine must be"),
        (["--radius", "0.1", "--workers", "99999"], "--workers 99999: memory of "),
        (["--radius", "0.1", "--solver", "scs"], "--solver scs needs --literal in bound"),
        (["--radius", "0.1", "--clip", "0", "1", "--domain", "0", "2"], "two domains"),
        (["--radius", "0.1", "--label-column", "2"], "for a .csv"),
        ([], "--radius"),
    ],
)
def test_bad_commands(files: Path, capsys: pytest.CaptureFixture[str], extra: list[str], message: str) -> None:
    assert run(["certify", str(files / "net.npz"), str(files / "points.npy"), *extra]) == 2
    error = capsys.readouterr().err.strip()
    assert message in error
    assert "\n" not in error


def test_killed_and_resumed(files: Path) -> None:
    """A job killed between two pieces goes on where it was, and ends with the same answer."""
    small_net(1, outputs=4, hidden=(12,)).save(files / "net.npz")
    job = files / "job"
    command = [sys.executable, "-m", "lipcert", "certify", str(files / "net.npz"), str(files / "points.npy")]
    command += ["--radius", "0.05", "--method", "hr2", "--json"]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen([*command, "--out", str(job)], env=environment, stdout=subprocess.DEVNULL)
    until(lambda: bool([*job.glob("pieces/*.json")]) or process.poll() is not None)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = {path.name: path.stat().st_mtime_ns for path in job.glob("pieces/*.json")}
    assert before
    arguments = [*command[3:], "--out", str(job), "--resume"]
    assert run(arguments) == 0
    after = {path.name: path.stat().st_mtime_ns for path in job.glob("pieces/pair-*.json")}
    assert len(after) == 6
    assert before.items() <= after.items()
    kept = json.loads((job / "result.json").read_text())
    points = np.load(files / "points.npy")
    whole = certify(small_net(1, outputs=4, hidden=(12,)), points, radius=0.05, method="hr2").to_dict()
    assert kept["per_radius"] == whole["per_radius"]
    assert [p["upper"] for p in kept["pairs"]] == [p["upper"] for p in whole["pairs"]]


def test_clip_in_both_forms(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--clip LO HI` as in bound, `--clip` beside a domain, and both."""
    command = ["certify", str(files / "net.npz"), str(files / "points.npy"), "--radius", "0.1", "--method", "interval"]
    forms = (["--domain", "0", "1", "--clip"], ["--clip", "0", "1"], ["--clip", "0", "1", "--domain", "0", "1"])
    told = []
    for form in (*forms, ["--domain", "0", "1"]):
        assert run([*command, *form, "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        told.append((answer["domain"], answer["clip"], answer["pairs"][0]["upper"]))
    assert told[0] == told[1] == told[2]
    assert told[0][:2] == ([0.0, 1.0], True)
    assert told[3][:2] == ([0.0, 1.0], False)
    assert told[3][2] >= told[0][2]


def test_labels_in_a_column_and_none_at_all(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    points, labels = np.load(files / "points.npy"), np.load(files / "labels.npy")
    table = np.column_stack([points[:, :1], labels, points[:, 1:]])
    rows = "\n".join(",".join(repr(float(v)) for v in row) for row in table)
    (files / "table.csv").write_text(f"a,class,b,c\n{rows}\n")
    ask = ["--radius", "0.1", "--method", "interval", "--json"]
    command = ["certify", str(files / "net.npz"), str(files / "points.npy"), "--labels", str(files / "labels.npy")]
    assert run([*command, *ask]) == 0
    apart = json.loads(capsys.readouterr().out)
    command = ["certify", str(files / "net.npz"), str(files / "table.csv"), "--label-column"]
    for k, column in enumerate(("class", "1", "-3")):
        assert run([*command, column, *ask, "--out", str(files / f"job{k}")]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert answer["per_radius"] == apart["per_radius"]
        assert answer["counts"] == apart["counts"]
        assert not answer["notes"]
        assert run(["verify", str(files / f"job{k}")]) == 0  # the column is kept with the job
        capsys.readouterr()
    for column, words in (("7", "0 to 3"), ("clas", "the columns are a, class, b, c")):
        assert run([*command, column, *ask]) == 2
        assert words in capsys.readouterr().err
    (files / "bare.csv").write_text(rows)
    assert run([*command[:2], str(files / "bare.csv"), "--label-column", "class", *ask]) == 2
    assert "no line of names" in capsys.readouterr().err
    (files / "more.csv").write_text(f"a,b,c,d,class\n{rows}\n")
    assert run([*command[:2], str(files / "more.csv"), "--label-column", "class", *ask]) == 2
    assert "5 names in the first line, 4 numbers" in capsys.readouterr().err
    assert run(["certify", str(files / "net.npz"), str(files / "points.npy"), *ask]) == 0
    assert "the classes that the network predicts count as the true ones" in capsys.readouterr().out
    assert run(["certify", str(files / "net.npz"), str(files / "points.npy"), *ask[:-1]]) == 0
    told = capsys.readouterr().out
    assert "no labels: the class that the network predicts counts as right" in told
    assert "note" not in told  # it is not said twice
    assert run(["certify", str(files / "net.npz"), str(files / "table.csv"), *ask]) == 2
    assert "takes 3; if a column holds the classes, name it with --label-column C" in capsys.readouterr().err


def test_what_is_wrong_with_labels_is_said_of_their_file(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    points = np.load(files / "points.npy")
    np.save(files / "beyond.npy", np.full(len(points), 7))
    command = ["certify", str(files / "net.npz"), str(files / "points.npy"), "--labels", str(files / "beyond.npy")]
    assert run([*command, "--radius", "0.1"]) == 2
    assert capsys.readouterr().err.startswith("lipcert: beyond.npy: labels 7 to 7; the network's classes are 0 to ")
    net = lipcert.load(files / "net.npz")
    with pytest.raises(InputError, match=r"^labels: labels 7 to 7"):
        certify(net, points, np.full(len(points), 7), radius=0.1)


def test_python_is_told_in_keywords(files: Path) -> None:
    net, points = lipcert.load(files / "net.npz"), np.load(files / "points.npy")
    asked: Any = {"radius": 0.1, "clip": (0, 1)}
    calls: dict[str, Callable[[], object]] = {
        r"give domain=\(lo, hi\) and clip=True": lambda: certify(net, points, **asked),
        r"inputs='points.npy': .* lipcert.read_data": lambda: certify("net.npz", "points.npy", radius=0.1),
        r"labels='labels.npy': .* lipcert.read_data": lambda: certify(net, points, "labels.npy", radius=0.1),
        r"^scale x: give": lambda: lipcert.read_data("points.npy", scale="x"),
        r"^label_column 1: for a .csv": lambda: lipcert.read_data("points.npy", label_column="1"),
        r"^radius 0: ": lambda: certify(net, points, radius=0),
        r"give one as out": lambda: certify(net, points, radius=0.1, recheck=True),
    }
    for words, call in calls.items():
        with pytest.raises(InputError, match=words) as caught:
            call()
        assert "--" not in str(caught.value)


def interrupted_bound(*args: Any, **wishes: Any) -> Result:
    """What `bound` answers to Ctrl-C."""
    return replace(bound(*args, **wishes), status=Status.INTERRUPTED)


def test_an_interrupted_pair_is_no_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C within a pair ends the job; what it had by then is not taken for the pair's constant."""
    net, points, job = small_net(3), np.random.default_rng(0).normal(size=(4, 3)), tmp_path / "job"
    monkeypatch.setattr(pairs_module, "bound", interrupted_bound)
    stopped = certify(net, points, radius=0.1, method="interval", out=job)
    assert not stopped.pairs
    assert not [*job.glob("pieces/*")]
    monkeypatch.undo()
    whole = certify(net, points, radius=0.1, method="interval", out=job, resume=True)
    assert len(whole.pairs) == 3


def test_an_interrupted_pair_of_an_earlier_release_is_done_again(tmp_path: Path) -> None:
    net, points, job = small_net(3), np.random.default_rng(0).normal(size=(4, 3)), tmp_path / "job"
    certify(net, points, radius=0.1, method="interval", out=job)
    record = job / "pieces" / "pair-0-2.json"
    record.write_text(record.read_text().replace('"status": "done"', '"status": "interrupted"'))
    assert "interrupted" in record.read_text()
    again = certify(net, points, radius=0.1, method="interval", out=job, resume=True)
    assert "pair-0-2 is done again: it was interrupted" in again.notes
    assert "interrupted" not in record.read_text()


def test_an_interrupt_in_the_solver_of_a_margin_ends_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(refine_module._Watcher, "__call__", stop)
    net = small_net(5, 4, (14, 10))
    with pytest.raises(KeyboardInterrupt):
        prove_class(net, Box(np.zeros(3), 0.5), 1, np.array([0, 2, 3]), Budget.of_work(10.0))
