"""Jobs: nothing lost and nothing done twice, whatever is killed; failures are outcomes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import types
from collections.abc import Mapping
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lipcert
from lipcert.errors import InputError
from lipcert.jobs import (
    Answer,
    End,
    JobFolder,
    JobProgress,
    Outcome,
    Piece,
    cluster,
    isolated,
    local,
    processes,
    run_pieces,
    stored_outcomes,
)
from lipcert.jobs.executors import worker_count
from lipcert.jobs.folder import file_stem
from lipcert.jobs.piece import describe
from lipcert.jobs.processes import _Process
from lipcert.jobs.run import estimate
from tests import job_pieces
from tests.conftest import ROOT
from tests.constants import set_constant
from tests.counting import Clock
from tests.job_pieces import QUESTION, SHORT, alive, counted_pieces, executions, processes_of, until, values

SQUARES = [Piece(f"n={i}", job_pieces.square, (i,)) for i in range(6)]


def open_job(path: Path, resume: bool = False) -> JobFolder:
    return JobFolder.open(path, "test", QUESTION, resume=resume)


class Killed(BaseException):
    """Stands for the end of the process: nothing catches it."""


# --- outcomes ---------------------------------------------------------------------------------------------------------


class SlowStart(ThreadPoolExecutor, Clock):
    """As an executor that starts a process for every piece, which takes five seconds of its clock."""

    def __init__(self) -> None:
        ThreadPoolExecutor.__init__(self, 1)
        Clock.__init__(self)
        self.looked = threading.Event()

    def monotonic(self) -> float:
        self.looked.set()
        return super().monotonic()

    def submit(self, fn, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        self.looked.clear()

        def late() -> object:
            self.looked.wait()  # until the run has noted when the piece began
            self.now += 5.0
            return fn(*args, **kwargs)

        return super().submit(late)


def test_the_estimate_counts_starting_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[JobProgress] = []
    with SlowStart() as executor:
        monkeypatch.setattr("lipcert.jobs.run.time", executor)
        run_pieces(SQUARES[:3], None, executor, seen.append)
    first = next(p for p in seen if p.done == 1)
    assert first.remaining is not None
    assert first.remaining > 5.0  # two pieces are left, whose own work takes microseconds


def test_in_memory_in_order() -> None:
    run = run_pieces(SQUARES, None, local())
    assert run.complete
    assert not run.failures
    assert [*run.outcomes] == [p.name for p in SQUARES]
    assert run.outcomes["n=5"].value == {"square": 25, "third": 5 / 3, "pair": [5, None]}


def test_a_piece_that_is_settled_is_not_done_and_not_kept(tmp_path: Path) -> None:
    """Asked with the outcomes so far, in the order of the pieces; the next run of the folder asks again."""

    def settle(piece: Piece, outcomes: Mapping[str, Outcome]) -> Outcome | None:
        return Outcome(piece.name, {"square": None}, None, 0.0) if len(outcomes) >= 3 else None

    with open_job(tmp_path) as folder:
        run = run_pieces(SQUARES, folder, local(), settle=settle)
    assert run.complete
    assert [*run.outcomes] == [p.name for p in SQUARES]
    assert [o.value == {"square": None} for o in run.outcomes.values()] == [False] * 3 + [True] * (len(SQUARES) - 3)
    with open_job(tmp_path, resume=True) as folder:
        again = run_pieces(SQUARES[3:4], folder, local(), deadline=0.0, settle=settle)
        assert (again.end, again.outcomes) == (End.DEADLINE, {}), "asked with nothing known"
        again = run_pieces(SQUARES, folder, local(), deadline=0.0, settle=settle)
        assert again.complete, "what is known settles the others, also when the time is over"
    with open_job(tmp_path, resume=True) as folder:
        again = run_pieces(SQUARES, folder, local())
    assert again.resumed == 3
    assert {p.name: run_pieces([p], None, local()).outcomes[p.name].value for p in SQUARES} == {
        name: outcome.value for name, outcome in again.outcomes.items()
    }


def test_failures_are_outcomes(tmp_path: Path) -> None:
    pieces = [
        Piece("raises", job_pieces.broken, ("no\nsuch   thing",)),
        Piece("exits", job_pieces.exits),
        Piece("unjsonable", job_pieces.unjsonable),
        SQUARES[3],
    ]
    with open_job(tmp_path) as folder:
        run = run_pieces(pieces, folder, local())
    assert run.complete
    assert run.failures == {
        "raises": "ValueError: no such thing",
        "exits": "SystemExit: enough",
        "unjsonable": "TypeError: Object of type object is not JSON serializable",
    }
    assert "Traceback" in (tmp_path / "pieces" / "raises.log").read_text()
    assert "Traceback" not in (tmp_path / "pieces" / "raises.json").read_text()
    assert len(describe(ValueError("x" * 10_000))) == 500
    with open_job(tmp_path, resume=True) as folder:  # kept, or done again when asked
        assert run_pieces(pieces, folder, local()).resumed == 4
        good = [Piece("raises", job_pieces.square, (2,)), *pieces[1:]]
        again = run_pieces(good, folder, local(), stored=stored_outcomes(folder, good, failures=False))
    assert again.resumed == 1
    assert "raises" not in again.failures
    assert not (tmp_path / "pieces" / "raises.log").exists()


def test_files_and_extensions(tmp_path: Path) -> None:
    with open_job(tmp_path / "job") as opened:
        for folder in (None, opened):
            run = run_pieces(counted_pieces(tmp_path, 1), folder, local())
            assert run.outcomes["piece 0"].read("txt") == b"0"
    for extension in ("json", "log", "a.b", "../x", "", "A"):
        with pytest.raises(InputError, match="extension"):
            Answer({}, {extension: b""})


def test_infinity_is_kept(tmp_path: Path) -> None:
    with open_job(tmp_path) as folder:
        run_pieces([Piece("a", dict, ([("upper", float("inf"))],))], folder, local())
    with open_job(tmp_path, resume=True) as folder:
        outcome = folder.load("a")
    assert outcome is not None
    assert outcome.value == {"upper": float("inf")}


def test_same_name_twice() -> None:
    with pytest.raises(InputError, match="same name"):
        run_pieces([SQUARES[0], SQUARES[0]], None, local())


# --- killed at any moment ---------------------------------------------------------------------------------------------


def test_stopped_at_every_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process ends before or after each rename in turn; then the job is resumed."""
    expected = values(run_pieces(counted_pieces(tmp_path, 3), None, local()).outcomes)
    replace = os.replace
    for moment in range(14):
        home, log = tmp_path / f"job{moment}", tmp_path / f"log{moment}"
        log.mkdir()
        renames = iter(range(100))

        def stop(source: str, target: str, moment: int = moment, renames: object = renames) -> None:
            k = next(renames)  # type: ignore[call-overload]
            if moment == 2 * k:
                raise Killed
            replace(source, target)
            if moment == 2 * k + 1:
                raise Killed

        pieces = counted_pieces(log, 3)
        monkeypatch.setattr("lipcert.files.os.replace", stop)
        with pytest.raises(Killed), open_job(home) as folder:
            run_pieces(pieces, folder, local())
        monkeypatch.setattr("lipcert.files.os.replace", replace)
        recorded = {json.loads(f.read_text())["name"] for f in (home / "pieces").glob("*.json")}
        with open_job(home, resume=True) as folder:
            run = run_pieces(pieces, folder, local())
        assert run.complete
        assert run.resumed == len(recorded)
        assert values(run.outcomes) == expected
        counts = executions(log)
        assert all(counts[int(name.split()[1])] == 1 for name in recorded)
        assert sum(counts.values()) <= 4
        assert not run.notes


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize(
    ("workers", "sent"),
    [(1, signal.SIGKILL), (2, signal.SIGKILL), (2, signal.SIGINT), (1, signal.SIGTERM), (2, signal.SIGTERM)],
)
def test_stop_a_process_and_resume(tmp_path: Path, workers: int, sent: signal.Signals) -> None:
    log, home = tmp_path / "log", tmp_path / "job"
    log.mkdir()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src"), *sys.path])}
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.job_pieces", str(home), str(log), str(workers)],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    until(lambda: len([*home.glob("pieces/*.json")]) == SHORT and len([*log.iterdir()]) == SHORT + workers)
    assert all(alive(pid) for pid in processes_of(log))
    os.killpg(child.pid, sent)  # as Ctrl-C does: everything in the foreground gets it
    if sent is signal.SIGTERM and workers > 1:  # SLURM signals every process of a job
        for pid in processes_of(log):
            with suppress(ProcessLookupError):  # the signal to the group may have ended it by now
                os.kill(pid, sent)
    said = child.communicate(timeout=120)
    if sent is not signal.SIGKILL:
        assert said == (b"INTERRUPTED", b"")
    until(lambda: not any(alive(pid) for pid in processes_of(log)))  # nobody works on for nobody
    with open_job(home, resume=True) as folder:  # the lock of a dead process locks nobody out
        run = run_pieces(counted_pieces(log, 12), folder, local())
    assert run.resumed == SHORT
    assert run.complete
    counts = executions(log)
    assert all(counts[i] == (2 if SHORT <= i < SHORT + workers else 1) for i in range(12))
    whole = run_pieces(counted_pieces(log, 12), None, local())
    assert values(run.outcomes) == values(whole.outcomes)


# --- folders ----------------------------------------------------------------------------------------------------------


def test_damaged_records_are_done_again(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.mkdir()
    pieces = counted_pieces(log, 7)
    with open_job(tmp_path / "job") as folder:
        whole = run_pieces(pieces, folder, local())
    files = [tmp_path / "job" / "pieces" / f"piece=20{i}.json" for i in range(7)]
    files[0].write_text(files[0].read_text()[:-20])
    files[1].write_text("")
    files[2].write_text("[1]")
    files[3].write_text(files[4].read_text())
    files[5].with_suffix(".txt").write_text("longer than it was")
    files[6].with_suffix(".txt").unlink()
    with open_job(tmp_path / "job", resume=True) as folder:
        run = run_pieces(pieces, folder, local())
    assert run.resumed == 1
    assert len(run.notes) == 6
    assert "piece=200.json: damaged, the piece is done again" in run.notes[0]
    assert values(run.outcomes) == values(whole.outcomes)
    assert executions(log)[4] == 1


def test_which_folders_are_used(tmp_path: Path) -> None:
    open_job(tmp_path / "new" / "deep").close()
    with pytest.raises(InputError, match="give resume=True") as caught:
        open_job(tmp_path / "new" / "deep")
    assert "use --resume" in caught.value.typed
    JobFolder.open(tmp_path / "b", "certify", QUESTION).close()
    with pytest.raises(InputError, match="holds another job: certify, not test"):
        open_job(tmp_path / "b", resume=True)
    other = {**QUESTION, "network": "4567"}
    with pytest.raises(InputError, match='holds another job: its network is "0123", not "4567"'):
        JobFolder.open(tmp_path / "new" / "deep", "test", other, resume=True)
    with pytest.raises(InputError, match="its seed is nothing, not 1"):
        JobFolder.open(tmp_path / "new" / "deep", "test", {**QUESTION, "seed": 1}, resume=True)
    with pytest.raises(InputError, match=r"its radii are nothing, not \[0.1\]"):
        JobFolder.open(tmp_path / "new" / "deep", "test", {**QUESTION, "radii": [0.1]}, resume=True)
    with pytest.raises(InputError, match="not empty and no job"):
        open_job(tmp_path, resume=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b", "new"]  # refused, nothing was written
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be used"):
        open_job(tmp_path / "file")
    job = tmp_path / "b" / "job.json"
    job.write_text(job.read_text().replace('"format": 1', '"format": 9'))
    with pytest.raises(InputError, match="format 9"):
        open_job(tmp_path / "b", resume=True)
    for text in ("{", "[]", job.read_text().replace("certify", "test")):
        job.write_text(text)
        with pytest.raises(InputError, match="damaged"):
            open_job(tmp_path / "b", resume=True)


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with open_job(tmp_path), pytest.raises(InputError, match=f"in use by process {os.getpid()} on"):
        open_job(tmp_path, resume=True)
    (tmp_path / "lock").write_text(f"process {os.getppid()} on here\n")  # alive, but it does not hold the lock
    open_job(tmp_path, resume=True).close()


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot"):
        open_job(tmp_path / "file" / "job")


@given(st.lists(st.text(st.characters(exclude_categories=()), min_size=1), min_size=2, max_size=8, unique=True))
def test_names_are_safe_and_differ(names: list[str]) -> None:
    stems = [file_stem(name) for name in names]
    assert len({stem.lower() for stem in stems}) == len(names)
    for stem in stems:
        assert set(stem) <= set("abcdefghijklmnopqrstuvwxyz0123456789_.-=")
        assert len(stem) <= 120
        assert stem[0] not in ".-"


def test_particular_names() -> None:
    assert file_stem("pair-0_1") == "pair-0_1"
    assert file_stem("Con") == "=43on"
    assert file_stem("con") == "=63on"
    assert file_stem("nul.x") == "=6eul.x"
    assert file_stem("../a") == "=2e.=2fa"
    assert file_stem("x" * 300) != file_stem("x" * 301)
    with pytest.raises(InputError, match="empty"):
        file_stem("")


# --- processes --------------------------------------------------------------------------------------------------------


def test_processes_share_the_cores_and_survive_deaths(tmp_path: Path) -> None:
    pieces = [
        Piece("look", job_pieces.surroundings),
        Piece("dies", job_pieces.dies),
        Piece("dies once", job_pieces.dies_once, (str(tmp_path / "flag"),)),
        Piece("cannot be sent", job_pieces.square, (threading.Lock(),)),
        *SQUARES,
    ]
    seen: list[JobProgress] = []
    with processes(2) as executor:
        run = run_pieces(pieces, None, executor, seen.append)
    assert run.complete
    look = run.outcomes["look"].value
    assert look is not None
    assert look["ignores"]
    assert look["pid"] != os.getpid()
    assert look["threads"]
    assert max(look["threads"]) <= max(1, len(os.sched_getaffinity(0)) // 2)
    assert run.failures == {
        "dies": "the worker process died (SIGKILL, as when the system runs out of memory), 2 times",
        "cannot be sent": "TypeError: cannot pickle '_thread.lock' object",
    }
    assert run.outcomes["n=4"].value == job_pieces.square(4) | {"pair": [4, None]}
    assert [p.done for p in seen] == [*range(len(pieces) + 1)]
    assert (seen[-1].failed, seen[-1].remaining) == (2, 0.0)


def test_isolated_limits() -> None:
    pieces = [Piece("hungry", job_pieces.hungry, (40.0,)), Piece("modest", job_pieces.hungry, (0.01,))]
    with isolated(2, memory=16 << 30, seconds=600.0) as executor:
        run = run_pieces(pieces, None, executor)
    assert run.failures == {"hungry": "out of memory"}
    assert run.outcomes["modest"].value is not None


@pytest.mark.parametrize("fresh", [True, False])
def test_isolated_processes_are_kept_or_new(tmp_path: Path, fresh: bool) -> None:
    """A kept one is new again after it has died."""
    pieces = [Piece(f"n={n}", job_pieces.counted, (str(tmp_path), n)) for n in range(4)]
    dies = Piece("dies", job_pieces.dies)
    with isolated(1, fresh=fresh) as executor:
        run = run_pieces([*pieces[:2], dies, *pieces[2:]], None, executor)
    assert [*run.failures] == ["dies"]
    assert len(job_pieces.processes_of(tmp_path)) == (4 if fresh else 2)


def test_isolated_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process is killed, and the program that the piece had started."""
    pid, receive = tmp_path / "pid", _Process._receive

    def late(process: _Process, seconds: float | None) -> bytes:
        if seconds is not None:  # they begin when the program runs, however long it took to start
            until(pid.exists)
        return receive(process, seconds)

    monkeypatch.setattr(_Process, "_receive", late)
    with isolated(1, seconds=0.1) as executor:
        run = run_pieces([Piece("slow", job_pieces.starts_a_program, (str(pid),))], None, executor)
    assert run.failures == {"slow": "out of time: stopped after 0.1 s"}
    until(lambda: not alive(int(pid.read_text())))


class Started(Clock):
    """Its deadline of 1.0 is over when so many pieces have begun."""

    def __init__(self, log: Path, begun: int) -> None:
        super().__init__()
        self.log, self.begun = log, begun

    def monotonic(self) -> float:
        return 2.0 * (len([*self.log.iterdir()]) >= self.begun)


def test_deadline_stops_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick, slow = counted_pieces(tmp_path, 1), counted_pieces(tmp_path, 3, 600.0)[1:]
    monkeypatch.setattr("lipcert.jobs.run.time", Started(tmp_path, 2))
    set_constant(monkeypatch, "_TICK", 0.05)  # how long this clock is not looked at
    with processes(1) as executor:
        run = run_pieces([*quick, *slow], None, executor, deadline=1.0)
    assert run.end is End.DEADLINE
    assert [*run.outcomes] == ["piece 0"]
    until(lambda: not any(alive(pid) for pid in processes_of(tmp_path)))


def test_bad_options() -> None:
    with pytest.raises(InputError, match="workers must be a whole number >= 1, not 0"):
        processes(0)
    with pytest.raises(InputError, match="memory"):
        isolated(1, memory=-1)
    with pytest.raises(InputError, match="seconds"):
        isolated(1, seconds=0.0)


# --- stopping ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The one that jobs look at."""
    clock = Clock()
    monkeypatch.setattr("lipcert.jobs.run.time", clock)
    monkeypatch.setattr("lipcert.jobs.piece.time", clock)
    return clock


def pieces_of_two_seconds(clock: Clock, count: int) -> list[Piece]:
    def work() -> dict[str, Any]:
        clock.now += 2.0
        return {}

    return [Piece(str(i), work) for i in range(count)]


def test_local_deadline(tmp_path: Path, clock: Clock) -> None:
    pieces = pieces_of_two_seconds(clock, 3)
    with open_job(tmp_path) as folder:
        run = run_pieces(pieces, folder, local(), deadline=3.0)
        assert run.end is End.DEADLINE
        assert [*run.outcomes] == ["0", "1"]
        assert run_pieces(pieces, folder, local(), deadline=clock.now).resumed == 2
        assert run_pieces(pieces, folder, local()).complete


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_keeps_what_is_finished(tmp_path: Path) -> None:
    def interrupt(progress: JobProgress) -> None:
        if progress.done == 3:
            signal.raise_signal(signal.SIGINT)

    with open_job(tmp_path) as folder:
        run = run_pieces(SQUARES, folder, local(), interrupt)
        assert run.end is End.INTERRUPTED
        assert [*run.outcomes] == [p.name for p in SQUARES[:3]]
        assert run_pieces(SQUARES, folder, local()).resumed == 3


def test_ctrl_c_while_an_outcome_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It had arrived, so it is written all the same."""
    replace, armed = os.replace, [True]

    def interrupted(source: str, target: str) -> None:
        if armed and str(target).endswith("n=3d2.json"):
            armed.clear()
            raise KeyboardInterrupt
        replace(source, target)

    with open_job(tmp_path) as folder:
        monkeypatch.setattr("lipcert.files.os.replace", interrupted)
        run = run_pieces(SQUARES, folder, local())
    assert run.end is End.INTERRUPTED
    assert [*run.outcomes] == ["n=0", "n=1", "n=2"]


class Bounded(Executor):
    """Counts the futures that are not done."""

    workers = 3

    def __init__(self, breaks_at: int | None = None) -> None:
        self.threads = ThreadPoolExecutor(3)
        self.order: list[str] = []
        self.open: set[Future[object]] = set()
        self.most = 0
        self.breaks_at = breaks_at

    def submit(self, fn, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        if len(self.order) == self.breaks_at:
            raise RuntimeError("cannot schedule new futures after shutdown")
        self.order.append(args[0].name)
        future = self.threads.submit(fn, *args, **kwargs)
        self.open = {f for f in self.open if not f.done()} | {future}
        self.most = max(self.most, len(self.open))
        return future


def test_few_futures_in_the_order_given() -> None:
    pieces = [Piece(str(i), job_pieces.square, (i,)) for i in range(200)]
    executor = Bounded()
    assert run_pieces(pieces, None, executor).complete
    assert executor.order == [p.name for p in pieces]
    assert executor.most <= 6


def test_an_executor_without_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    class Empty(Bounded):
        lost = True

        def submit(self, *_, **__):  # type: ignore[no-untyped-def]
            return Future()

    set_constant(monkeypatch, "_TICK", 0.01)
    run = run_pieces(SQUARES, None, Empty())
    assert run.end is End.EXECUTOR_LOST
    assert not run.outcomes


def test_an_executor_that_breaks_is_not_the_pieces_fault() -> None:
    run = run_pieces(SQUARES, None, Bounded(breaks_at=3))
    assert run.end is End.EXECUTOR_LOST
    assert not run.failures
    assert len(run.outcomes) <= 3
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
        broken = run_pieces([SQUARES[0], Piece("dies", job_pieces.dies), *SQUARES[1:]], None, executor)
    assert broken.end is End.EXECUTOR_LOST
    assert not broken.failures


# --- progress ---------------------------------------------------------------------------------------------------------


def test_estimates() -> None:
    assert estimate(None, [1.0], 5, 2) is None
    assert estimate(3.0, [], 0, 2) == 0.0
    assert estimate(10.0, [], 8, 2) == pytest.approx(40.0)
    assert estimate(10.0, [5.0, 1.0], 8, 2) == pytest.approx(47.0)
    assert estimate(10.0, [], 1, 8) == pytest.approx(10.0)  # one piece is not shared
    assert estimate(10.0, [100.0], 0, 8) == pytest.approx(50.0)  # long overdue
    words = [str(JobProgress(3, 1, 9, s, r)) for s, r in ((5.0, None), (70.0, 7200.0), (9e4, 200000.0))]
    assert words == [
        "3 of 9 done, 1 failed, 5 s",
        "3 of 9 done, 1 failed, 1 min 10 s, about 2 h 0 min left",
        "3 of 9 done, 1 failed, 1 d 1 h, about 2 d 7 h left",
    ]


def test_estimate_of_a_steady_job(clock: Clock) -> None:
    seen: list[JobProgress] = []
    run_pieces(pieces_of_two_seconds(clock, 10), None, local(), seen.append)
    assert [p.remaining for p in seen] == [None, *(2.0 * (10 - p.done) for p in seen[1:])]


# --- clusters ---------------------------------------------------------------------------------------------------------


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"pip install '(\.|lipcert)\[cluster\]'"):
        cluster("tcp://127.0.0.1:1")


def fake_distributed(monkeypatch: pytest.MonkeyPatch, found: object, workers: dict[str, int]) -> None:
    """A package with just the client that `cluster` asks for."""

    class Client:
        def __init__(self, address: str, **_: object) -> None:
            if address == "nowhere":
                raise OSError("timed out")

        def wait_for_workers(self, count: int, **_: float) -> None:
            if len(workers) < count:
                raise TimeoutError

        def run(self, _: object, name: str, on_error: str) -> dict[str, object]:
            assert (name, on_error) == ("lipcert.jobs.executors:VERSION", "return")
            return {"tcp://a": found}

        def nthreads(self) -> dict[str, int]:
            return workers

        def get_executor(self, **_: bool) -> Executor:
            return ThreadPoolExecutor(2)

        def close(self) -> None: ...

    module = types.ModuleType("distributed")
    module.Client = Client  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "distributed", module)


def test_clusters_that_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_distributed(monkeypatch, lipcert.__version__, {})
    with pytest.raises(InputError, match=r"no Dask scheduler answers there \(timed out\)"):
        cluster("nowhere")
    with pytest.raises(InputError, match="has no workers"):
        cluster("tcp://a")
    fake_distributed(monkeypatch, "0.0.1", {"tcp://a": 2})
    with pytest.raises(InputError, match=r"this worker has lipcert 0.0.1, not"):
        cluster("tcp://a")
    fake_distributed(monkeypatch, ModuleNotFoundError("No module named 'lipcert'"), {"tcp://a": 2})
    with pytest.raises(InputError, match="cannot import lipcert"):
        cluster("tcp://a")


def test_a_cluster_loses_all_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = {"tcp://a": 2, "tcp://b": 4}
    fake_distributed(monkeypatch, lipcert.__version__, workers)
    set_constant(monkeypatch, "_COUNT_SECONDS", 0.0)
    with cluster("tcp://a") as executor:
        assert worker_count(executor) == 6
        assert run_pieces(SQUARES, None, executor).complete
        workers.clear()
        assert worker_count(executor) == 1
        assert not executor.lost  # type: ignore[attr-defined]
        set_constant(monkeypatch, "_PATIENCE_SECONDS", -1.0)
        assert executor.lost  # type: ignore[attr-defined]
