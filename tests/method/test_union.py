"""The largest constant of several regions: brackets, budgets, certificates, and what is forged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lipcert import Box, FileFormatError, InputError, Network, Polytope, bound, bound_union, verify_union
from lipcert.cli.app import run
from lipcert.method.result import UnionResult
from lipcert.method.run import answer
from lipcert.problem.question import Question
from lipcert.problem.region import hull
from lipcert.proof.file import load_certificate, load_proof
from lipcert.proof.union import UnionCertificate
from lipcert.search.progress import Status
from lipcert.search.settings import Settings
from tests.enumeration import exact_constant
from tests.lift_tools import deep_net

ONE = np.ones(1)
NET = deep_net(2, 8, 6, 1, seed=4)


def regions() -> list[Box | Polytope]:
    boxes = [Box(np.array(center), 0.4) for center in ([-1.0, -1.0], [1.0, 0.5], [0.0, 2.0])]
    return [*boxes[:2], Polytope(boxes[2], [[1.0, 1.0]], [2.0])]


def test_the_largest_of_all() -> None:
    true = [exact_constant(NET, region, ONE) for region in regions()]
    found = bound_union(NET, regions(), work=4.0)
    assert found.status is Status.DONE
    assert found.upper == pytest.approx(max(true), rel=1e-5)
    assert found.lower == pytest.approx(max(true), rel=1e-5)
    assert all(part.upper >= value * (1 - 1e-9) for part, value in zip(found.parts, true, strict=True))
    assert found.witness is not None
    assert regions()[int(np.argmax(true))].contains(found.witness)
    assert found.certificate.upper == found.upper
    assert verify_union(found.certificate, NET).proved


def test_the_budget_goes_where_the_upper_bound_is_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[tuple[str, float]] = []

    def spied(question: Question, settings: Settings, *more: Any) -> Any:
        region: Any = question.region
        middle = region.box.center if isinstance(region, Polytope) else region.center
        turns.append((settings.method, float(middle[0])))
        return answer(question, settings, *more)

    monkeypatch.setattr("lipcert.method.regions.answer", spied)
    found = bound_union(NET, regions(), work=4.0)
    assert [name for name, _ in turns[:3]] == ["linear"] * 3
    assert len(turns) == 4  # one turn closes its region, and the others are below it by then
    first = bound_union(NET, regions(), work=4.0, method="linear")
    top = max(first.parts, key=lambda part: part.upper)
    around = hull(top.region)
    assert around is not None
    assert turns[3][1] == float(around.center[0])
    assert found.upper <= first.upper


def test_a_list_of_regions_is_one_question() -> None:
    """`bound_union` is the older name of `bound` with a list: the same brackets, facts and keys."""
    one, other = bound(NET, regions(), work=0.5), bound_union(NET, regions(), work=0.5)
    assert isinstance(one, UnionResult)
    assert (one.upper, one.lower, one.notes) == (other.upper, other.lower, other.notes)
    assert [row for row in one.facts().rows if row[0] != "time"] == [r for r in other.facts().rows if r[0] != "time"]
    assert one.to_dict().keys() == other.to_dict().keys()
    single = bound(NET, regions()[0], work=0.1, method="linear")
    assert one.to_dict().keys() == single.to_dict().keys() | {"regions"}
    assert one.to_dict()["region"] == {"type": "union", "count": 3}
    assert len(bound(NET, tuple(regions()[:1]), work=0.1, method="linear").to_dict()["regions"]) == 1


def test_files(tmp_path: Path) -> None:
    found = bound_union(NET, regions(), work=0.5, method="linear")
    found.save(tmp_path / "all.npz")
    assert isinstance(load_proof(tmp_path / "all.npz"), UnionCertificate)
    answer = verify_union(tmp_path / "all.npz", NET)
    assert answer.proved
    assert len(answer.parts) == 3
    assert answer.upper == found.upper
    other = verify_union(tmp_path / "all.npz", deep_net(2, 8, 6, 1, seed=5))
    assert not other.proved
    assert "region 0" in other.reason
    found.save(tmp_path / "all.json")
    kept = json.loads((tmp_path / "all.json").read_text())
    assert [part["upper"] for part in kept["regions"]] == [part.upper for part in found.parts]
    with pytest.raises(InputError, match=r"\.txt"):
        found.save(tmp_path / "all.txt")
    arrays = dict(np.load(tmp_path / "all.npz"))

    def forged(**changes: Any) -> Path:
        np.savez(tmp_path / "forged.npz", **{k: v for k, v in (arrays | changes).items() if v is not None})
        return tmp_path / "forged.npz"

    for changes in (
        {"part_2": None},
        {"regions": np.array(2)},
        {"certificate": np.array(9)},
        {"part_1": np.zeros(8)},
        {"part_1": arrays["part_1"][:-40]},
        {"part_7": arrays["part_1"]},
    ):
        with pytest.raises(FileFormatError):
            load_certificate(forged(**changes), UnionCertificate)


def test_parts_together_hold_what_one_file_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Archives packed inside an archive: each may be small enough, and all of them be gigabytes."""
    found = bound_union(NET, regions(), work=0.5, method="linear")
    found.save(tmp_path / "all.npz")
    numbers = max(sum(a.nbytes for a in part.certificate.arrays().values()) for part in found.parts) // 8
    monkeypatch.setattr("lipcert.proof.union.MAX_WEIGHTS", 2 * numbers)
    with pytest.raises(FileFormatError, match="together"):
        load_certificate(tmp_path / "all.npz", UnionCertificate)
    monkeypatch.setattr("lipcert.proof.union.MAX_WEIGHTS", 20 * numbers)
    assert len(load_certificate(tmp_path / "all.npz", UnionCertificate).parts) == 3


def test_parts_must_be_about_one_question() -> None:
    net = deep_net(2, 5, 2, seed=0)
    parts = [bound(net, Box(np.zeros(2), 0.1), output=k, method="linear", work=0.1).certificate for k in (0, 1)]
    answer = verify_union(UnionCertificate(tuple(parts)), net)
    assert not answer.proved
    assert "different questions" in answer.reason
    assert verify_union(UnionCertificate(tuple(parts[:1])), net).proved


@pytest.mark.parametrize("k", [0, 1, 2])
def test_every_part_must_be_proved(k: int) -> None:
    parts = list(bound_union(NET, regions(), work=0.2, method="linear").certificate.parts)
    parts[k] = replace(parts[k], claim=0.9 * parts[k].claim)
    answer = verify_union(UnionCertificate(tuple(parts)), NET)
    assert not answer.proved
    assert answer.reason.startswith(f"region {k}: ")


def test_what_is_refused() -> None:
    with pytest.raises(InputError, match="0 regions"):
        bound_union(NET, [])
    with pytest.raises(InputError, match="1,000"):
        bound_union(NET, [Box(np.zeros(2), 1.0)] * 1001)
    with pytest.raises(InputError, match="no option 'radius'"):
        bound_union(NET, regions(), radius=1)
    nothing = Polytope(Box(np.zeros(2), 1.0), [[1.0, 0.0]], [-2.0])
    with pytest.raises(InputError, match="no point"):
        bound_union(NET, [nothing], work=0.1)
    found = bound_union(NET, [nothing, *regions()], work=0.3, method="linear")
    assert len(found.parts) == 3
    assert "region 0 of 4 is left out" in found.notes[0]


def test_an_interrupt_in_the_first_round_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lipcert.method.run.look", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bound_union(NET, regions(), work=0.5)


TEXT = """
(declare-const X_0 Real)(declare-const X_1 Real)(declare-const Y_0 Real)
(assert (<= X_1 1))(assert (>= X_1 -1))
(assert (or (and (<= X_0 -1)(>= X_0 -2)(<= Y_0 0)) (and (<= X_0 2)(>= X_0 1)(<= (+ X_0 X_1) 1.5))))
"""


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    NET.save(tmp_path / "net.npz")
    (tmp_path / "p.vnnlib").write_text(TEXT)
    net, file, proof = str(tmp_path / "net.npz"), str(tmp_path / "p.vnnlib"), str(tmp_path / "proof.npz")
    assert run(["bound", net, "--vnnlib", file, "--work", "0.5", "--json", "--certificate", proof]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["region"] == {"type": "union", "count": 2}
    assert answer["upper"] == max(part["upper"] for part in answer["regions"])
    assert answer["lower"] == max(part["lower"] for part in answer["regions"])
    assert answer["regions"][1]["region"]["type"] == "polytope"
    assert run(["verify", proof, "--network", net, "--json"]) == 0
    checked = json.loads(capsys.readouterr().out)
    assert checked["proved"]
    assert len(checked["regions"]) == 2
    assert run(["verify", proof, "--network", net]) == 0
    assert "on 2 regions" in capsys.readouterr().out
    pytest.importorskip("flint", reason="python-flint is not here: pip install 'lipcert[exact]'")
    assert run(["verify", proof, "--network", net, "--exact"]) == 0
    assert run(["bound", net, "--vnnlib", file, "--work", "0.2", "--method", "linear"]) == 0
    assert "region 1" in capsys.readouterr().out
    for command in (
        ["cells", net, "--vnnlib", file, "--cells", "2"],
        ["export", net, "--vnnlib", file, "--to", "a.dat-s"],
    ):
        capsys.readouterr()
        assert run([*command, "--vnnlib", file]) == 2
        caught = capsys.readouterr()
        assert "2 regions; only bound takes several" in caught.err
        assert caught.err.count("\n") == 1
    Network.from_weights([np.ones((1, 3))]).save(tmp_path / "three.npz")
    assert run(["bound", str(tmp_path / "three.npz"), "--vnnlib", file]) == 2
    assert "the property has 2 inputs, the network 3" in capsys.readouterr().err
