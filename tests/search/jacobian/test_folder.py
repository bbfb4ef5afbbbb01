"""Job folders of `jacobian`: killed at any moment and resumed, and nothing that a folder holds is believed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lipcert import Ball, Box, Everywhere, InputError, Jacobian, Network, Status, jacobian
from lipcert.cli.app import run
from lipcert.proof.cells import Cells, halves
from lipcert.proof.file import load_certificate
from lipcert.proof.jacobian import JacobianCertificate
from lipcert.search.jacobian import search
from tests.enumeration import exact_ranges
from tests.problems import net_of
from tests.search.jacobian.test_certificate import DAMAGED, FORGED

NET, BOX = net_of(2, 9, 7, 2, seed=3), Box([0.1, -0.2], 1.0)
GAP = 1e-4
ROOM = 1e-8  # a file claims a little less than was found: against the largest entry


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_BLOCK", 6)
    monkeypatch.setattr(search, "_KEPT_BLOCKS", 2)


class Rounds:
    """Ctrl-C after so many reports."""

    def __init__(self, rounds: int) -> None:
        self.left, self.seen = rounds, list[Any]()

    def __call__(self, progress: Any) -> None:
        self.seen.append(progress)
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def not_worse(before: Jacobian | JacobianCertificate, after: Jacobian) -> bool:
    entries = before.entries if isinstance(before, Jacobian) else before.claims
    room = ROOM * np.abs([entries.lo, entries.hi]).max()
    seen = before.seen
    return bool(
        np.all(after.lower >= entries.lo - room)
        and np.all(after.upper <= entries.hi + room)
        and np.all(after.seen_most >= seen.hi - room)
        and np.all(after.seen_least <= seen.lo + room)
    )


@cache
def ranges() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return exact_ranges(NET, BOX)


def true(found: Jacobian) -> bool:
    """What is proved contains the exact ranges, and the certificate proves it."""
    low, high = ranges()
    return bool(
        np.all(found.lower <= low + ROOM)
        and np.all(high - ROOM <= found.upper)
        and np.all(found.seen_most <= high + ROOM)
        and np.all(low - ROOM <= found.seen_least)
        and found.certificate.verify(NET).proved
    )


@pytest.mark.parametrize("rounds", [1, 2, 5, 12])
def test_interrupted_and_resumed(rounds: int, tmp_path: Path) -> None:
    """First nothing but the cells of the folder again, which are as good as they were; then on to the end."""
    first = jacobian(NET, BOX, gap=GAP, folder=tmp_path / "job", on_progress=Rounds(rounds))
    assert first.status is Status.INTERRUPTED
    again = jacobian(NET, BOX, gap=GAP, folder=tmp_path / "job", resume=True, max_cells=1)
    assert again.resumed == again.cells == first.cells
    assert not_worse(first, again)
    end = jacobian(NET, BOX, gap=GAP, folder=tmp_path / "job", resume=True)
    assert end.status is Status.DONE
    assert end.resumed == first.cells < end.cells
    assert not_worse(again, end)
    assert true(end)
    assert bool(end.good.all())


@pytest.mark.parametrize("region", [Box(np.zeros(3), 0.7), Ball(np.zeros(3), 0.7), Everywhere()], ids=repr)
@pytest.mark.parametrize("gap", [None, 1e-5])
def test_other_regions_and_signs(region: Box | Ball | Everywhere, gap: float | None, tmp_path: Path) -> None:
    """Not worse, also where it is signs that are asked for and the cells are made by signs alone."""
    net = net_of(3, 7, 6, 2, seed=6)
    first = jacobian(net, region, gap=gap, folder=tmp_path / "job", on_progress=Rounds(6))
    again = jacobian(net, region, gap=gap, folder=tmp_path / "job", resume=True, max_cells=1)
    assert not_worse(first, again)
    assert again.certificate.verify(net).proved


class Killed(BaseException):
    """In place of a signal that cannot be caught."""


def test_killed_at_any_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the state is written for the n-th time: what was written before is there, whole, and a valid proof."""
    save = JacobianCertificate.save
    for moment in (0, 1, 3):
        left, place = [moment], tmp_path / f"killed-{moment}"

        def stop(self: JacobianCertificate, path: Any, left: list[int] = left) -> None:
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            save(self, path)

        monkeypatch.setattr(JacobianCertificate, "save", stop)
        with pytest.raises(Killed):
            jacobian(NET, BOX, gap=GAP, folder=place)
        monkeypatch.setattr(JacobianCertificate, "save", save)
        assert (place / "certificate.npz").exists() == (moment > 0)
        assert not (place / "result.json").exists()
        kept = load_certificate(place / "certificate.npz", JacobianCertificate) if moment else None
        again = jacobian(NET, BOX, gap=GAP, folder=place, resume=True)
        assert (again.resumed > 0) == (moment > 0)
        assert kept is None or (kept.verify(NET).proved and not_worse(kept, again))
        assert again.status is Status.DONE
        assert true(again)
        assert {p.name for p in place.iterdir()} >= {"certificate.npz", "entries.csv", "result.json"}


KILLED = """
import os, signal, sys
from lipcert import Box, jacobian, load
from lipcert.search.jacobian import search
search._BLOCK, search._KEPT_BLOCKS = 6, 2
seen = []
def see(progress):
    seen.append(progress)
    if len(seen) == 12:
        os.kill(os.getpid(), signal.SIGKILL)
jacobian(load(sys.argv[1]), Box([0.1, -0.2], 1.0), gap=1e-4, folder=sys.argv[2], on_progress=see)
"""


def test_kill_9(tmp_path: Path) -> None:
    NET.save(tmp_path / "net.npz")
    words = [sys.executable, "-c", KILLED, str(tmp_path / "net.npz"), str(tmp_path / "job")]
    ended = subprocess.run(words, check=False)
    assert ended.returncode == -signal.SIGKILL
    kept = load_certificate(tmp_path / "job" / "certificate.npz", JacobianCertificate)
    assert kept.verify(NET).proved
    (tmp_path / "job" / ".entries.csv.half").write_text("what a kill leaves behind")
    again = jacobian(NET, BOX, gap=GAP, folder=tmp_path / "job", resume=True)
    assert again.resumed == kept.splits.count > 1
    assert again.status is Status.DONE
    assert not_worse(kept, again)
    assert true(again)
    assert not list((tmp_path / "job").glob(".*"))


@cache
def stopped() -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The certificate and the job of a run that was interrupted."""
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        found = jacobian(NET, BOX, gap=GAP, folder=Path(place) / "job", on_progress=Rounds(10))
        assert found.status is Status.INTERRUPTED
        return found.certificate.arrays(), json.loads((Path(place) / "job" / "job.json").read_text())


def put(place: Path, change: Callable[[dict[str, NDArray[Any]]], None]) -> Path:
    """A folder whose certificate was changed."""
    arrays, job = stopped()
    arrays = {name: array.copy() for name, array in arrays.items()}
    change(arrays)
    place.mkdir()
    (place / "job.json").write_text(json.dumps(job))
    np.savez(place / "certificate.npz", allow_pickle=False, **arrays)
    return place


def _other_cuts(arrays: dict[str, NDArray[Any]]) -> None:
    splits = arrays["splits"]
    arrays["splits"] = np.where(splits >= 0, (splits + 1) % 18, splits)


CHANGED: dict[str, Callable[[dict[str, NDArray[Any]]], None]] = {
    **{name: forge for name, (forge, _) in FORGED.items()},
    **DAMAGED,
    "all claims are zero": lambda a: a.update(lower=0 * a["lower"], upper=0 * a["upper"]),
    "claims that say nothing": lambda a: a.update(lower=a["lower"] - 1e300, upper=a["upper"] + 1e300),
    "seen far outside": lambda a: a.update(seen_most=a["seen_most"] + 9.0, seen_least=a["seen_least"] - 9.0),
    "other places of splits": _other_cuts,
    "no points": lambda a: a.update(
        points=a["points"][:0], most_at=0 * a["most_at"] - 1, least_at=0 * a["most_at"] - 1
    ),
}


@pytest.mark.parametrize("name", CHANGED)
def test_nothing_in_a_folder_is_believed(name: str, tmp_path: Path) -> None:
    """Splits that are no use are done again, and claims are not looked at: the answer is true, and verified."""
    place = put(tmp_path / "job", CHANGED[name])
    found = jacobian(NET, BOX, gap=GAP, folder=place, resume=True, work=0.002)
    assert true(found)
    assert load_certificate(place / "certificate.npz", JacobianCertificate).verify(NET).proved
    if name in DAMAGED:
        assert any("all of it is done again" in note for note in found.notes)


@pytest.mark.parametrize("contents", [b"", b"PK\x03\x04", b"no archive at all" * 50])
def test_files_that_are_no_certificates(contents: bytes, tmp_path: Path) -> None:
    place = put(tmp_path / "job", lambda _: None)
    (place / "certificate.npz").write_bytes(contents)
    found = jacobian(NET, BOX, gap=GAP, folder=place, resume=True, work=0.002)
    assert found.resumed == 0
    assert any("certificate.npz: damaged" in note for note in found.notes)
    assert true(found)


def test_interrupted_before_all_is_proved_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder keeps what it had; what is returned is what was proved by then."""
    place = put(tmp_path / "job", lambda _: None)
    before = (place / "certificate.npz").read_bytes()
    monkeypatch.setattr("lipcert.proof.cells._NUMBERS", 8 * NET.neurons)
    stop = Rounds(4)
    found = jacobian(NET, BOX, gap=GAP, folder=place, resume=True, on_progress=stop)
    assert found.status is Status.INTERRUPTED
    kept = load_certificate(place / "certificate.npz", JacobianCertificate)
    assert 1 < found.cells == stop.seen[-1].cells < kept.splits.count
    assert any("left as it was" in note for note in found.notes)
    assert true(found)
    assert (place / "certificate.npz").read_bytes() == before
    assert not (place / "result.json").exists()


def test_a_finished_job_is_proved_again(tmp_path: Path) -> None:
    first = jacobian(NET, BOX, gap=GAP, folder=tmp_path / "job")
    again = jacobian(NET, BOX, gap=GAP, folder=tmp_path / "job", resume=True)
    assert again.status is Status.DONE
    assert 1 < again.resumed == again.cells <= first.cells
    assert not_worse(first, again)


OTHER: dict[str, tuple[dict[str, Any], str]] = {
    "another gap": ({"gap": 0.1}, "its gap is 0.0001, not 0.1"),
    "another region": ({"region": Box([0.1, -0.2], 0.9)}, "its region is"),
    "a ball": ({"region": Ball([0.1, -0.2], 1.0)}, "its region is"),
    "other scores": ({"outputs": [1, 0]}, "its outputs are"),
    "fewer inputs": ({"inputs": [0]}, "its inputs are"),
    "another network": ({"net": net_of(2, 9, 7, 2, seed=4)}, "its network is"),
    "not resumed": ({"resume": False}, "holds this job already; give resume=True"),
    "no folder": ({"folder": None}, "resume needs a folder"),
}


@pytest.mark.parametrize("name", OTHER)
def test_other_questions_are_refused(name: str, tmp_path: Path) -> None:
    place = put(tmp_path / "job", lambda _: None)
    before = (place / "certificate.npz").read_bytes()
    change, words = OTHER[name]
    asked: dict[str, Any] = {"net": NET, "region": BOX, "gap": GAP, "folder": place, "resume": True} | change
    with pytest.raises(InputError, match=words) as caught:
        jacobian(**asked)
    assert "\n" not in str(caught.value)
    assert (place / "certificate.npz").read_bytes() == before


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    NET.save("net.npz")
    command = ["jacobian", "net.npz", "--center", "0.1,-0.2", "--radius", "1", "--gap", "1e-4", "--out", "job"]
    assert run([*command, "--work", "0.002"]) == 1
    assert "when the work was done" in capsys.readouterr().out
    assert run([*command, "--resume", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert 1 < answer["resumed"] < answer["cells"]
    assert json.loads(Path("job/result.json").read_text())["upper"] == answer["upper"]
    assert Path("job/entries.csv").read_text().count("\n") == 1 + 4
    assert run(["verify", "job/certificate.npz", "--network", "net.npz"]) == 0
    capsys.readouterr()
    for words in ([*command], [*command, "--resume", "--gap", "0.5"], [*command[:-2], "--resume"]):
        assert run(words) == 2
        said = capsys.readouterr()
        assert said.err.count("\n") == 1
        assert not said.out


def test_signs_that_are_found_can_be_split() -> None:
    """Whether a sign shows depends on rounding, so a split of it is no fault; a sign that is split already is one."""
    net: Network = net_of(1, 2, 1, seed=0)
    lo, hi, where = np.zeros((1, 1)), np.ones((1, 1)), np.array([net.inputs])
    for found in (-1, 0, 1):
        both = halves(Cells(lo, hi, np.array([[found, 1]], dtype=np.int8)), where, np.zeros(1))
        assert both is not None
        assert both.signs.tolist() == [[-2, 1], [2, 1]]
    assert halves(Cells(lo, hi, np.array([[2, 1]], dtype=np.int8)), where, np.zeros(1)) is None
