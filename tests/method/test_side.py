"""A second process takes turns with some of the engines: what it finds comes back, and its end is no end here."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
from concurrent.futures import Executor
from pathlib import Path

import numpy as np
import pytest

from lipcert import Box, bound, verify
from lipcert.budget import Budget
from lipcert.budget.memory import Memory
from lipcert.jobs import local
from lipcert.method import side as side_module
from lipcert.method.bracket import Bracket
from lipcert.method.lower import look
from lipcert.method.side import Side, beside
from lipcert.method.turns import Engine, take_turns
from lipcert.problem.problem import Problem
from lipcert.proof.arithmetic import prove_interval, prove_product
from lipcert.search.settings import Settings
from tests.constants import set_constant
from tests.problems import net_of

NET = net_of(4, 8, 8, 1, seed=3)
BOX = Box(np.zeros(4), 0.5)
FAR = 1e6  # seconds: no test waits for so long


class Here(Engine):
    """It has the largest index, and waits until the other process has answered."""

    name = "here"
    side: Side | None = None

    def __init__(self) -> None:
        super().__init__()
        self.slices = 0

    def advance(self, budget: Budget) -> None:  # noqa: ARG002
        self.slices += 1
        self.idle = 0
        if self.side is not None and self.side.executor is not None:
            assert self.side.answered.wait(120.0)
        self.ended = self.slices > 5


class There(Engine):
    """It proves the bound by intervals and finds a witness, where it is; or its process dies."""

    name = "there"

    def __init__(self, problem: Problem, bracket: Bracket, dies: bool) -> None:
        super().__init__()
        self.problem, self.bracket, self.dies = problem, bracket, dies

    def advance(self, budget: Budget) -> None:
        if self.dies and multiprocessing.parent_process() is not None:
            os._exit(1)
        look(self.problem, self.bracket, budget, 0.01)
        found = prove_interval(self.problem)
        self.bracket.improve(found)
        self.bracket.note(f"there: in process {os.getpid()}")
        self.upper, self.ended = found.upper, True

    def least(self, budget: Budget) -> float:  # noqa: ARG002
        return 0.2  # a smaller index than that of the other


def lasting(problem: Problem, bracket: Bracket, budget: Budget, executor: Executor) -> list[Engine]:  # noqa: ARG001
    return [Here(), There(problem, bracket, False)]


def dying(problem: Problem, bracket: Bracket, budget: Budget, executor: Executor) -> list[Engine]:  # noqa: ARG001
    return [Here(), There(problem, bracket, True)]


@pytest.mark.parametrize("make", [lasting, dying])
def test_engines_of_the_other_process(make: side_module._Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    """What they find is this bracket's, as if they were here; if the process dies, they are."""
    set_constant(monkeypatch, "STARTING", 0.0)
    problem, bracket, budget = Problem.of(NET, BOX), Bracket(Settings(workers=2)), Budget.of_seconds(FAR)
    bracket.improve(prove_product(problem))
    engines = make(problem, bracket, budget, local())
    with beside(problem, bracket, budget, make) as side:
        assert side is not None
        assert isinstance(engines[0], Here)
        engines[0].side = side
        take_turns(engines, bracket, budget, side)
    assert bracket.upper == prove_interval(problem).upper
    assert bracket.lower > 0
    assert {turn.engine for turn in bracket.turns} == {"here", "there"}
    assert bracket.certificate is not None
    assert verify(bracket.certificate, NET).proved
    assert any("ended early" in note for note in bracket.notes) == (make is dying)
    where = next(note for note in bracket.notes if note.startswith("there: "))
    assert where.endswith(f" {os.getpid()}") == (make is dying)


def test_one_process_is_asked_for_or_work_is_counted() -> None:
    problem, budget = Problem.of(NET, BOX), Budget.of_work(1.0)
    for settings in (Settings(workers=1), Settings(workers=2, work=1.0)):
        with beside(problem, Bracket(settings), budget, lasting) as side:
            assert side is None


def test_two_processes_close_what_one_does() -> None:
    result = bound(NET, BOX, workers=2, time_limit=FAR)
    assert result.gap is not None
    assert result.gap <= 1e-6
    assert verify(result.certificate, NET).proved


def test_a_busy_machine_has_no_core_to_spare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    for load, cores in ((0.1, 2), (1.2, 2), (2.0, 1), (7.0, 1)):
        monkeypatch.setattr(os, "getloadavg", lambda load=load: (load, 0.0, 0.0), raising=False)
        assert side_module.cores() == cores


def test_the_other_process_has_a_share_of_the_memory_limit_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    set_constant(monkeypatch, "STARTING", 0.0)
    problem, memory = Problem.of(NET, BOX), Memory(4e9, resident=lambda: 1e8)
    bracket, budget = Bracket(Settings(workers=2)), Budget.of_seconds(FAR, memory)
    bracket.improve(prove_product(problem))
    with Side(problem, bracket, budget, lasting) as side:
        side.exchange(lambda: lasting(problem, bracket, budget, local()))
        assert side.executor is not None
        assert memory.limit == (1 - side_module.SHARE) * 4e9
    assert memory.limit == 4e9


def test_a_full_memory_begins_no_second_process(monkeypatch: pytest.MonkeyPatch) -> None:
    set_constant(monkeypatch, "STARTING", 0.0)
    problem, memory = Problem.of(NET, BOX), Memory(4e9, resident=lambda: 2e9)
    bracket, budget = Bracket(Settings(workers=2)), Budget.of_seconds(FAR, memory)
    with Side(problem, bracket, budget, lasting) as side:
        side.exchange(lambda: lasting(problem, bracket, budget, local()))
        assert side.executor is None
        assert memory.limit == 4e9


def others_of(pid: int) -> list[int]:
    """Processes that this one started and that are workers, which run with a name of `multiprocessing.spawn`."""
    threads = (Path("/proc") / str(pid) / "task").glob("*/children")
    found = [child for thread in threads for child in thread.read_text().split()]
    return [int(child) for child in found if b"spawn_main" in (Path("/proc") / child / "cmdline").read_bytes()]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_both_processes_and_keeps_the_bracket(sent: signal.Signals, tmp_path: Path) -> None:
    net_of(8, 40, 40, 3).save(tmp_path / "net.npz")  # no search ends on it soon
    command = [sys.executable, "-m", "lipcert", "bound", str(tmp_path / "net.npz"), "--radius", "1", "--output", "all"]
    command += ["--norm", "2", "--time-limit", "600", "--workers", "2", "--json"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stderr is not None
    while not (others := others_of(child.pid)):  # every line is news about the bracket
        assert child.stderr.readline()
    child.send_signal(sent)
    out, err = child.communicate(timeout=120)
    found = json.loads(out)
    assert (child.returncode, found["status"]) == (0, "interrupted")
    assert found["upper"] > found["lower"] > 0
    assert "Traceback" not in err
    assert not any((Path("/proc") / str(pid)).exists() for pid in others)
