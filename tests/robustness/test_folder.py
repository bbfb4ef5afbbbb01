"""Job folders are strangers': edited records are done again, forged claims are not proved, honest ones are."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lipcert import Box, Certification, Everywhere, InputError, Network, SoundnessError, bound, certify, verify_folder
from lipcert.cli.app import run
from lipcert.files import write_npz
from lipcert.jobs import Answer
from lipcert.jobs.folder import fingerprint
from lipcert.problem.norms import INF, parse_norm
from lipcert.proof.file import load_certificate
from lipcert.proof.margins import MarginCertificate, MarginProof, certificate_of, linear_margins
from lipcert.robustness import pairs, refine
from lipcert.robustness import verify as verify_module
from lipcert.robustness.attack import Counterexamples
from lipcert.robustness.check import (
    check_counterexamples,
    check_kept_input,
    check_kept_pair,
    check_lower,
    check_upper,
    proved_radius,
)
from lipcert.robustness.decision import classify
from lipcert.robustness.refine import OpenInput
from lipcert.robustness.stored import read_arrays
from lipcert.search.settings import Settings
from tests.forging import asking
from tests.robustness.test_certify import small_net

NET = small_net(7)
INPUTS = np.random.default_rng(1).uniform(0, 1, (10, 3))
LABELS = np.where(np.arange(10) == 9, 0, classify(NET, INPUTS, None).predicted)  # the last one is misclassified
QUESTION: dict[str, Any] = {"radius": [0.02, 0.3], "domain": (0.0, 1.0), "method": "interval", "lower": True}
Change = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Certification]:
    """A job with refined inputs, counterexamples, a misclassified input and lower bounds; nobody writes there."""
    folder = tmp_path_factory.mktemp("honest") / "job"
    result = certify(NET, INPUTS, LABELS, **QUESTION, refine=60.0, out=str(folder))
    assert (result.certified_radius > 0).sum() >= 6
    assert np.isfinite(result.attack_radius).any()
    assert result.counts(0.3)["certified"] > 0
    assert result.wrong[9]
    assert len([*folder.glob("pieces/input-*.npz")]) >= 4
    return folder, result


@pytest.fixture
def job(honest: tuple[Path, Certification], tmp_path: Path) -> Path:
    """The same folder, to be spoilt."""
    return Path(shutil.copytree(honest[0], tmp_path / "job"))


def edit(path: Path, change: Change) -> None:
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))


def put(**fields: Any) -> Change:
    """Other values in the record's value."""
    return lambda record: record["value"].update(fields)


def drop(name: str) -> Change:
    return lambda record: record["value"].pop(name)


def top(**fields: Any) -> Change:
    return lambda record: record.update(fields)


def refined_names(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("pieces/input-*.npz"))


def resumed(folder: Path) -> Certification:
    return certify(NET, INPUTS, LABELS, **QUESTION, refine=60.0, out=str(folder), resume=True, attacks=False)


def test_every_claim_of_an_honest_job_is_proved(honest: tuple[Path, Certification]) -> None:
    folder, result = honest
    answer = verify_folder(folder, NET, INPUTS, LABELS)
    assert answer.proved
    assert answer.failures == ()
    counts = {kind.kind: kind.count for kind in answer.kinds}
    assert counts["constants"] == counts["lower bounds"] == 3
    assert counts["radii by constants"] + counts["refined inputs"] == (result.certified_radius > 0).sum()
    assert counts["refined inputs"] >= 4
    assert counts["counterexamples"] == np.isfinite(result.attack_radius).sum()
    assert counts["statuses"] == 10
    again = resumed(Path(shutil.copytree(folder, folder.parent / "again")))
    assert again.notes == ()  # everything was used
    assert np.array_equal(again.certified_radius, result.certified_radius)


@pytest.mark.parametrize(
    "change",
    [{"clip": True, "refine": 60.0}, {"norm": "2"}, {"norm": "1", "domain": None}, {"method": "hr2", "radius": 0.1}],
)
def test_other_questions_keep_what_they_need(change: dict[str, Any], tmp_path: Path) -> None:
    question = {**QUESTION, "lower": False, **change}
    net = small_net(7, 1) if question["method"] == "hr2" else NET  # one pair: relaxations take a moment each
    result = certify(net, INPUTS[:5], **question, out=str(tmp_path / "job"))
    answer = verify_folder(tmp_path / "job", net, INPUTS[:5])
    assert answer.proved, answer.failures
    assert (result.certified_radius > 0).any()


PAIR_EDITS = [
    put(upper=1e-6),
    put(upper=float("nan")),
    put(upper="1"),
    put(upper=None),
    put(upper=True),
    put(upper=-1.0),
    drop("upper"),
    put(i=-1),
    put(i=1.5),
    put(j=0),
    drop("j"),
    put(lower=1e9),
    put(lower=[1]),
    put(witness=None),
    put(witness=[0.0, 0.0]),
    put(witness=[9.0, 9.0, 9.0]),
    put(method=3),
    top(value=[]),
    top(value=None),
    top(value=None, error=["no"]),
    top(value=None, error="SoundnessError: made up"),
    top(seconds=float("nan")),
    top(seconds="soon"),
    top(name="pair-1-2 "),
    top(files={}),
    top(files={"npz": 3}),
    top(files={"/../../../job": 1}),
    top(files=["npz"]),
    lambda record: record.clear(),
]
INPUT_EDITS = [
    put(radius=5.0),
    put(radius=0.45),
    put(radius=float("nan")),
    put(radius="0.3"),
    put(radius=None),
    put(radius=0.0),
    put(input=-1),
    put(input=1 << 70),
    put(input=2.5),
    put(label=-1),
    put(label=[0]),
    drop("radius"),
    drop("input"),
    top(value="radius"),
    top(files={}),
]


def test_edited_records_are_done_again(
    honest: tuple[Path, Certification], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No edit ends in a radius that is not proved; a note says which piece was done again. Several at a time.

    What is done again has the honest answer, to save time.
    """
    folder, result = honest
    done: list[str] = []

    def answer(name: str) -> Answer:
        record, file = (folder / "pieces" / f"{name}.{ending}" for ending in ("json", "npz"))
        if not file.exists():  # attacked in the honest job, and open without attacks
            return Answer({"input": int(name.split("-")[1]), "label": 0, "radius": 0.0})
        done.append(name)
        return Answer(json.loads(record.read_text())["value"], {"npz": file.read_bytes()})

    monkeypatch.setattr(pairs, "pair_constant", lambda _net, _region, pair, *_: answer("pair-{}-{}".format(*pair)))
    monkeypatch.setattr(refine, "refine_input", lambda _net, ball, *_limits: answer(f"input-{ball.index}"))
    names = ["pair-0-1", "pair-0-2", "pair-1-2", *refined_names(folder)[:2]]
    rounds = max(-(-len(PAIR_EDITS) // 3), -(-len(INPUT_EDITS) // 2))
    for k in range(rounds):
        job = Path(shutil.copytree(folder, tmp_path / f"job{k}"))
        edits = [*zip(names[:3], PAIR_EDITS[3 * k : 3 * k + 3], strict=False)]
        edits += zip(names[3:], INPUT_EDITS[2 * k : 2 * k + 2], strict=False)
        for name, change in edits:
            edit(job / "pieces" / f"{name}.json", change)
        done.clear()
        again = resumed(job)
        assert np.array_equal(again.certified_radius, result.certified_radius)
        assert [p.upper for p in again.pairs] == [p.upper for p in result.pairs]
        assert sorted(done) == sorted(name for name, _ in edits)
        for name, _ in edits:
            assert len([note for note in again.notes if name in note]) == 1, (k, name)
        assert len(again.notes) == len(edits)


_PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
_JSON = st.recursive(_PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner))
_FIELDS = ("i", "j", "upper", "lower", "method", "witness", "input", "label", "radius")


@settings(max_examples=40)
@given(_JSON | st.fixed_dictionaries({}, optional=dict.fromkeys(_FIELDS, _JSON)))
def test_whatever_a_record_says_it_is_no_proof(value: Any) -> None:
    """Without a file nothing is proved, and nothing breaks."""
    ball = OpenInput(0, INPUTS[0], 1, (0.1,), None, np.array([0.0, np.inf, 0.0]))
    for told, claim in (
        (check_kept_pair(NET, Box(np.zeros(3), 1.0), (0, 1), Settings(), INF, value, None), "upper"),
        (check_kept_input(NET, ball, 1.0, None, value, None), "radius"),
    ):
        assert isinstance(told["reason"], str) or not value.get(claim)


def test_files_that_were_swapped_cut_or_made_elsewhere(job: Path, honest: tuple[Path, Certification]) -> None:
    result = honest[1]
    pieces = job / "pieces"

    def swap(a: str, b: str) -> None:
        for ending in ("npz", "json"):  # with sizes that fit
            first, second = pieces / f"{a}.{ending}", pieces / f"{b}.{ending}"
            kept = first.read_bytes()
            first.write_bytes(second.read_bytes())
            second.write_bytes(kept)
        edit(pieces / f"{a}.json", top(name=a))
        edit(pieces / f"{b}.json", top(name=b))

    inputs = refined_names(job)
    swap("pair-0-1", "pair-0-2")
    swap(inputs[0], inputs[1])
    cut = pieces / f"{inputs[2]}.npz"
    cut.write_bytes(cut.read_bytes()[:-7])
    edit(pieces / f"{inputs[2]}.json", top(files={"npz": cut.stat().st_size}))
    for name in ("pair-0-1", "pair-0-2"):
        i, j = (int(n) for n in name.split("-")[1:])
        edit(pieces / f"{name}.json", put(i=i, j=j))
    for name in inputs[:2]:
        k = int(name.split("-")[1])
        edit(pieces / f"{name}.json", put(input=k, label=int(LABELS[k])))
    answer = verify_folder(job, NET, INPUTS, LABELS)
    told = {line.split(":")[0] for line in answer.failures}
    assert {"pair-0-1", "pair-0-2", *inputs[:3]} <= told
    assert not answer.proved
    again = resumed(job)
    assert np.array_equal(again.certified_radius, result.certified_radius)
    assert {note.split(" ")[0] for note in again.notes} == {"pair-0-1", "pair-0-2", *inputs[:3]}
    assert verify_folder(job, NET, INPUTS, LABELS).proved


def test_a_constant_needs_a_certificate_about_itself(tmp_path: Path) -> None:
    """Each thing that the check compares, one at a time."""
    box, wide = Box(np.zeros(3), 1.0), Box(np.zeros(3), 2.0)
    file = tmp_path / "proof.npz"

    def reason(upper: float = 1e6, **about: Any) -> str | None:
        question: dict[str, Any] = {"net": NET, "region": box, "output": (0, 1), "method": "interval", "lower": False}
        question |= about
        certificate = bound(question.pop("net"), question.pop("region"), **question).certificate
        certificate.save(file)
        return check_upper(NET, box, INF, 0, 1, upper, file)

    assert reason() is None
    assert reason(region=wide) is None
    assert reason(region=Everywhere(), method="product") is None
    assert "something else" in str(reason(region=Box(np.zeros(3), 0.5)))
    assert "something else" in str(reason(region=Box(np.full(3, 0.1), 1.0)))
    assert "something else" in str(reason(region=Box(np.full(3, -0.1), 1.0)))
    assert "something else" in str(reason(output=(1, 0)))
    assert "something else" in str(reason(output=0))
    assert "something else" in str(reason(norm="2"))
    assert "another network" in str(reason(net=small_net(8)))
    assert "proves" in str(reason(upper=1e-6))
    certificate = bound(NET, box, output=(0, 1), method="interval", lower=False).certificate
    asking(certificate, coordinate=0).save(file)  # one partial derivative only
    assert "something else" in str(check_upper(NET, box, INF, 0, 1, 1e6, file))
    assert "something else" in str(reason(input_weights=np.array([1.0, 1.0, 10.0])))  # in another unit
    certificate.save(file)
    assert check_upper(NET, box, INF, 0, 1, certificate.claim, file) is None
    assert "something else" in str(check_upper(NET, Everywhere(), INF, 0, 1, 1e6, file))
    assert "no such file" in str(check_upper(NET, box, INF, 0, 1, 1e6, tmp_path / "none.npz"))


def test_a_lower_bound_needs_its_point() -> None:
    result = bound(NET, Box(np.zeros(3), 1.0), output=(0, 1), method="interval", lower=True)
    about = (NET, Box(np.zeros(3), 1.0), INF, 0, 1)
    assert result.best is not None
    point = tuple(result.best.point.tolist())
    assert check_lower(*about, result.best.value, point) is None
    assert "proves" in str(check_lower(*about, 1.01 * result.best.value, point))
    assert "no point" in str(check_lower(*about, 0.1, None))
    assert "no point" in str(check_lower(*about, 0.1, point[:2]))
    assert "no point" in str(check_lower(NET, Box(np.full(3, 5.0), 0.1), parse_norm("inf"), 0, 1, 0.1, point))


def test_a_refined_radius_needs_all_its_margins(tmp_path: Path) -> None:
    file = tmp_path / "margins.npz"
    k = int(np.argmax(classify(NET, INPUTS, None).lead.min(axis=1)))
    label = int(classify(NET, INPUTS, None).predicted[k])
    nothing = np.where(np.arange(3) == label, np.inf, 0.0)
    ball = OpenInput(k, INPUTS[k], label, (0.001, 0.01, 0.02), None, nothing)
    rivals = [i for i in range(3) if i != label]

    def proofs(box: Box, rows: list[Any], net: Network = NET) -> None:
        uppers = linear_margins(net, box, np.array(rows))[1]
        made = tuple(MarginProof(row, float(upper)) for row, upper in zip(rows, uppers, strict=True))
        file.write_bytes(certificate_of(net, box, made).to_bytes())

    def row(i: int, own: int = label) -> Any:
        c = np.zeros(3)
        c[i], c[own] = 1.0, -1.0
        return c

    good = [row(i) for i in rivals]
    proofs(Box(INPUTS[k], 0.01), good)
    assert proved_radius(NET, ball, file) == (0.01, None)
    assert proved_radius(NET, replace(ball, slopes=np.full(3, 1e9)), file)[0] > 0.01  # beyond, by the constants
    proofs(Box(INPUTS[k], 0.015), good)
    assert proved_radius(NET, ball, file) == (0.01, None)  # a larger box than asked
    constant = bound(NET, Box(INPUTS[k], 1.0), output=(0, 1), method="interval", lower=False).certificate
    bad: list[tuple[str, Any]] = [
        ("another box", lambda: proofs(Box(INPUTS[k], 0.0005), good)),
        ("another box", lambda: proofs(Box(INPUTS[k - 1], 0.02), good)),
        ("another network", lambda: proofs(Box(INPUTS[k], 0.01), good, small_net(8))),
        ("stay behind", lambda: proofs(Box(INPUTS[k], 0.01), good[:1])),
        ("stay behind", lambda: proofs(Box(INPUTS[k], 0.01), [good[0], -good[1]])),
        ("stay behind", lambda: proofs(Box(INPUTS[k], 0.01), [good[0], row(label, rivals[1])])),
        ("stay behind", lambda: proofs(Box(INPUTS[k], 0.01), [good[0], 1e-3 * good[1]])),
        ("stay behind", lambda: proofs(Box(INPUTS[k], 5.0), good)),
        ("certificate of margins", lambda: constant.save(file)),
    ]
    for words, spoil in bad:
        spoil()
        radius, reason = proved_radius(NET, ball, file)
        assert radius == 0.0
        assert words in str(reason), (words, reason)
    proofs(Box(INPUTS[k], 0.01), good[:1])  # what the constants cover needs no margin
    covered = replace(ball, rivals=np.where(np.arange(3) == rivals[1], 0.015, nothing))
    assert proved_radius(NET, covered, file) == (0.01, None)
    proofs(Box(INPUTS[k], 5.0), good)  # margins that are not below zero, and a claim that says they are
    kept = load_certificate(file, MarginCertificate)
    file.write_bytes(replace(kept, claims=(-1.0, -1.0)).to_bytes())
    assert proved_radius(NET, replace(ball, radii=(5.0,)), file)[0] == 0.0


def test_a_counterexample_needs_its_point() -> None:
    """x_0 > x_1 decides: the point must be on the other side, near enough, and within the limits."""
    net, inputs, labels = Network.from_weights([np.eye(2)]), np.array([[0.5, 0.4]]), np.array([0])

    def proved(point: list[float], radius: float, limits: tuple[float, float] | None = None) -> bool:
        found = Counterexamples(np.array([radius]), np.array([0]), np.array([point]))
        return bool(check_counterexamples(net, inputs, labels, found, limits, INF)[0])

    assert proved([0.4, 0.45], 0.11)
    assert proved([0.4, 0.45], 0.11, (0.4, 0.5))
    assert not proved([0.4, 0.45], 0.0999)
    assert not proved([0.4, 0.45], 0.11, (0.4, 0.44))
    assert not proved([0.4, 0.45], 0.11, (0.41, 1.0))
    assert not proved([0.45, 0.45], 0.11)  # a tie
    assert not proved([0.45, 0.4], 0.11)
    assert not proved([np.nan, 0.45], 0.11)
    assert not proved([np.inf, np.inf], np.inf)


def result_edits() -> dict[str, tuple[str, Change]]:
    """What is changed in result.json, and the kind of claim that is not proved then."""

    def pair(k: int, **fields: Any) -> Change:
        return lambda told: told["pairs"][k].update(fields)

    def tally(**fields: Any) -> Change:
        return lambda told: told["per_radius"][1].update(fields)

    return {
        "upper": ("constants", pair(1, upper=1e-6)),
        "lower": ("lower bounds", pair(1, lower=1e6)),
        "certified": ("tallies", tally(certified=0, undecided=0)),
        "attacked": ("tallies", tally(attacked=0)),
        "radius": ("tallies", tally(radius=0.31)),
        "rows": ("tallies", lambda told: told["per_radius"].pop()),
        "counts": ("tallies", lambda told: told["counts"].update(correct=0, misclassified=0)),
        "radii": ("question", top(radii=[0.02, 3.0])),
        "norm": ("question", top(norm="2")),
        "domain": ("question", top(domain=[0.0, 2.0])),
        "clip": ("question", top(clip=True)),
        "network": ("question", lambda told: told["network"].update(sha256="0" * 64)),
    }


@pytest.mark.parametrize("name", result_edits())
def test_edited_results_are_not_proved(name: str, job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The refined inputs are those of the honest job: their checks are left out here, to save time."""
    monkeypatch.setattr(verify_module, "check_refined", lambda *_: None)
    kind, change = result_edits()[name]
    edit(job / "result.json", change)
    answer = verify_folder(job, NET, INPUTS, LABELS)
    failed = [each.kind for each in answer.kinds if each.proved < each.count]
    assert any(each.startswith(kind) for each in failed), failed
    assert answer.failures


def spoilt_arrays() -> dict[str, tuple[str, Callable[[dict[str, Any]], None]]]:
    def more(name: str, k: int, value: float) -> Callable[[dict[str, Any]], None]:
        def change(arrays: dict[str, Any]) -> None:
            arrays[name][k] = value

        return change

    def example(move: float) -> Callable[[dict[str, Any]], None]:
        def change(arrays: dict[str, Any]) -> None:
            arrays["examples"][0] += move

        return change

    def nearer(arrays: dict[str, Any]) -> None:
        arrays["attack_radius"][arrays["example_index"][0]] *= 0.99

    def none(arrays: dict[str, Any]) -> None:
        for name in ("examples", "example_index", "example_class"):
            arrays[name] = arrays[name][:0]

    def class_of(shift: int) -> Callable[[dict[str, Any]], None]:
        def change(arrays: dict[str, Any]) -> None:
            owner = arrays["example_index"][0]
            arrays["example_class"][0] = shift if shift < 0 else arrays["labels"][owner] + shift

        return change

    def made_up(arrays: dict[str, Any]) -> None:
        k = np.flatnonzero(np.isinf(arrays["attack_radius"]))[0]
        arrays["attack_radius"][k] = 0.1
        arrays["example_index"][0] = k

    def swap(arrays: dict[str, Any]) -> None:
        arrays["labels"][[0, 9]] = (arrays["labels"][[0, 9]] + 1) % 3

    return {
        "larger radius": ("refined inputs", more("certified_radius", 0, 5.0)),
        "radius of a wrong one": ("refined inputs", more("certified_radius", 9, 0.01)),
        "endless radius": ("refined inputs", more("certified_radius", 1, np.inf)),
        "status": ("statuses", more("status", 9, 1)),
        "labels": ("labels", swap),
        "predicted": ("labels", more("predicted", 9, 0)),
        "no class": ("labels", more("predicted", 2, -1)),
        "example": ("counterexamples", example(0.5)),
        "example that is none": ("counterexamples", example(np.nan)),
        "nearer": ("counterexamples", nearer),
        "no examples": ("counterexamples", none),
        "another's example": ("counterexamples", made_up),
        "class of an example": ("counterexamples", class_of(0)),
        "no class at all": ("counterexamples", class_of(-1)),
        "a class too many": ("counterexamples", class_of(99)),
        "images": ("tallies", more("images", 3, 0.25)),
    }


@pytest.mark.parametrize("name", spoilt_arrays())
def test_edited_arrays_are_not_proved(name: str, job: Path) -> None:
    kind, change = spoilt_arrays()[name]
    arrays = {k: v.copy() for k, v in read_arrays(job / "arrays.npz").items()}
    change(arrays)
    write_npz(job / "arrays.npz", arrays)
    answer = verify_folder(job, NET, INPUTS, LABELS)
    failed = [each.kind for each in answer.kinds if each.proved < each.count]
    assert any(each.startswith(kind) for each in failed), failed


def test_without_their_certificates_constants_prove_nothing(job: Path) -> None:
    for path in job.glob("pieces/pair-*.npz"):
        path.unlink()
    answer = verify_folder(job, NET, INPUTS, LABELS)
    assert "pair-0-1: " in answer.failures[0]
    assert not answer.proved
    assert any(line.startswith("input-") for line in answer.failures)  # what followed from it follows no more


def test_two_proofs_that_contradict_each_other_are_a_bug(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        verify_module, "check_counterexamples", lambda _net, _x, _y, found, *_: np.ones(len(found.places), bool)
    )
    arrays = {k: v.copy() for k, v in read_arrays(job / "arrays.npz").items()}
    arrays["attack_radius"][arrays["example_index"][0]] = 0.0
    write_npz(job / "arrays.npz", arrays)
    with pytest.raises(SoundnessError, match="please report"):
        verify_folder(job, NET, INPUTS, LABELS)


def test_other_networks_data_and_folders_are_refused(job: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="network is not that of the job"):
        verify_folder(job, small_net(8), INPUTS, LABELS)
    with pytest.raises(InputError, match="data is not that of the job"):
        verify_folder(job, NET, INPUTS)
    with pytest.raises(InputError, match="give inputs"):
        verify_folder(job, NET)
    with pytest.raises(InputError, match="give net"):
        verify_folder(job, None, INPUTS, LABELS)
    with pytest.raises(InputError, match=r"no job\.json"):
        verify_folder(tmp_path, NET, INPUTS)
    whole = {path: path.read_bytes() for path in job.iterdir() if path.is_file()}
    for name in json.loads(whole[job / "job.json"])["question"]:
        for value in ({"a": [None]}, "x", -1, float("nan")):
            asked = json.loads(whole[job / "job.json"])
            asked["question"][name] = value
            asked["fingerprint"] = fingerprint(asked)
            (job / "job.json").write_text(json.dumps(asked))
            with pytest.raises(InputError):
                verify_folder(job, NET, INPUTS, LABELS)
    for name in ("job.json", "result.json", "arrays.npz"):
        for path, contents in whole.items():
            path.write_bytes(contents if path.name != name else contents[:-20])
        with pytest.raises(InputError, match=re.escape(name)):
            verify_folder(job, NET, INPUTS, LABELS)


def test_a_check_that_breaks_proves_nothing(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def out_of_memory(*_about: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(verify_module, "check_upper", out_of_memory)
    answer = verify_folder(job, NET, INPUTS, LABELS)
    assert "pair-0-1: out of memory" in answer.failures[0]


def test_ctrl_c_is_no_verdict(honest: tuple[Path, Certification], monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_about: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(verify_module, "check_refined", stop)
    with pytest.raises(KeyboardInterrupt):
        verify_folder(honest[0], NET, INPUTS, LABELS)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Network and data from where they were, or as given; scale, labels and number as in the job."""
    NET.save(tmp_path / "net.npz")
    np.save(tmp_path / "points.npy", np.round(INPUTS * 255).astype(np.uint8))
    np.save(tmp_path / "labels.npy", LABELS)
    net, points, job = (str(tmp_path / name) for name in ("net.npz", "points.npy", "job"))
    command = ["certify", net, points, "--labels", str(tmp_path / "labels.npy"), "--scale", "1/255", "--first", "6"]
    command += ["--radius", "0.02,0.3", "--domain", "0", "1", "--method", "interval", "--out", job]
    assert run(command) == 0
    assert f"lipcert verify {job}" in capsys.readouterr().out
    assert run(["verify", job, "--json", "--workers", "2"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["proved"]
    assert {"constants", "refined inputs", "counterexamples", "statuses"} <= {kind["kind"] for kind in told["claims"]}
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for name in ("net.npz", "points.npy"):
        (tmp_path / name).rename(moved / name)
    assert run(["verify", job]) == 2
    assert "no such file" in capsys.readouterr().err
    assert run(["verify", job, "--network", str(moved / "net.npz"), "--data", str(moved / "points.npy")]) == 0
    assert "proved" in capsys.readouterr().out.split("\n")[0]
    given = ["verify", job, "--network", str(moved / "net.npz"), "--data", str(moved / "points.npy")]
    assert run([*given, "--first", "5"]) == 2
    assert "hashes differ" in capsys.readouterr().err
    edit(tmp_path / "job" / "result.json", lambda told: told["pairs"][0].update(upper=1e-6))
    assert run(given) == 1
    out = capsys.readouterr().out
    assert out.startswith("not proved")
    assert "not proved: pair-0-1: its certificate proves" in out
    assert run([*given, "--exact"]) == 2
    assert run(["verify", str(tmp_path / "job" / "pieces" / "pair-0-1.npz")]) == 2
    assert "--network" in capsys.readouterr().err
    proof = str(tmp_path / "job" / "pieces" / "pair-0-1.npz")
    assert run(["verify", proof, "--network", str(moved / "net.npz"), "--data", "x.npy"]) == 2
    assert "--data" in capsys.readouterr().err


def test_what_is_stated_has_room_for_another_machine() -> None:
    """Leads are lowered by more than two enclosures of the same scores can differ by."""
    bare = classify(NET, INPUTS, LABELS)
    stated = bare.portable()
    finite = np.isfinite(bare.lead)
    width = (bare.scores.hi - bare.scores.lo).max()
    assert np.all(stated.lead[finite] < bare.lead[finite])
    assert np.all(bare.lead[finite] - stated.lead[finite] < 10 * width + 1e-15)
    assert np.array_equal(stated.lead[~finite], bare.lead[~finite])


def test_an_error_that_is_kept_proves_nothing(job: Path) -> None:
    """A failed piece is not retried, and what it would have proved is not certified."""
    edit(job / "pieces" / "pair-0-1.json", top(value=None, error="no\x1b[31m luck", files={}))
    (job / ".arrays.npz.killed").write_bytes(b"half")
    again = resumed(job)
    assert again.failed == (("pair-0-1", "no\N{REPLACEMENT CHARACTER}[31m luck"),)
    assert len(again.pairs) == 2
    assert not (job / ".arrays.npz.killed").exists()
