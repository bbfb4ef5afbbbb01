"""A limit of memory: what does not fit is not begun, what grows ends, and the bracket by then is proved.

The sizes of the process are made up here, and so are the limits; nothing large is allocated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lipcert.budget.memory as memory_module
from lipcert import Box, InputError, bound, certify, verify
from lipcert.budget import Budget
from lipcert.budget.memory import MEMORY_UNKNOWN, NUMBER, Memory, as_size, in_words, machine, resident, unwatched
from lipcert.cli.app import run
from lipcert.method.base import Method
from lipcert.method.bracket import Bracket
from lipcert.method.planning import plan, plan_whole, whole_step
from lipcert.method.run import run as run_method
from lipcert.method.solving import Task
from lipcert.method.table import named
from lipcert.method.turns import Engine, take_turns
from lipcert.problem.problem import Problem
from lipcert.relaxation.model import Relaxation
from lipcert.relaxation.specification import Specification, build
from lipcert.robustness.certify import share_of
from lipcert.search.progress import Status
from lipcert.solver import Status as SolverStatus
from lipcert.solver import choose_solver, no_room_for_interior
from lipcert.solver.costs import solve_numbers
from lipcert.solver.result import Log, RankTwoResult
from tests.constants import set_constant
from tests.method.test_turns import Falling, bracket_of
from tests.problems import net_of

GB = float(1 << 30)


class Process:
    """A process whose size the test sets."""

    def __init__(self, size: float = 0.0) -> None:
        self.size, self.looks = size, 0

    def __call__(self) -> float:
        self.looks += 1
        return self.size


def limited(limit: float, process: Callable[[], float | None], work: float = 10.0) -> Budget:
    return Budget.of_work(work, Memory(limit, process, look=0.0))


def answered(method: Method, problem: Problem, budget: Budget) -> tuple[Bracket, Any]:
    bracket = Bracket()
    return bracket, run_method(method, problem, bracket, budget)


@pytest.mark.parametrize(
    ("text", "size"),
    [("4G", 4 * GB), ("500M", 500 << 20), ("1.5 GiB", 1.5 * GB), ("2t", 2048 * GB), ("209715200", 209715200.0)],
)
def test_sizes_are_read(text: str, size: float) -> None:
    assert as_size(text) == size
    assert as_size(size) == size


@pytest.mark.parametrize(
    "bad", ["", "G", "-4G", "4X", "nan", "101%", "0", "5M", "4G4G", "1e3G", "inf", 0, -1, math.nan, True]
)
def test_bad_sizes_are_refused(bad: Any) -> None:
    with pytest.raises(InputError, match="memory"):
        as_size(bad)
    if isinstance(bad, str):
        assert run(["bound", "none.npz", "--radius", "1", "--memory", bad]) == 2


def test_a_bad_size_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net_of(2, 3, 1).save(tmp_path / "net.npz")
    assert run(["bound", str(tmp_path / "net.npz"), "--radius", "1", "--memory", "lots"]) == 2
    assert capsys.readouterr().err == "lipcert: --memory 'lots': give a size such as 4G, 500M or 75%\n"


def test_the_default_is_three_quarters_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_module, "machine", lambda: 8 * GB)
    assert as_size(None) == 6 * GB
    assert as_size("50%") == 4 * GB
    monkeypatch.setattr(memory_module, "machine", lambda: None)
    assert as_size(None) == MEMORY_UNKNOWN
    assert "does not say how much memory it has" in (unwatched(None) or "")
    assert unwatched("4G") is None
    with pytest.raises(InputError, match="give a size such as 4G"):
        as_size("50%")
    monkeypatch.setattr(memory_module, "resident", lambda: None)
    assert "forecasts alone" in (unwatched("4G") or "")


def test_control_groups_count(tmp_path: Path) -> None:
    """Of both versions, and those around the own one: the least of all."""
    (tmp_path / "own").write_text("4:memory:/jobs/this\n3:cpu:/jobs\n0::/slice\n")
    for place, text in (
        ("memory/memory.limit_in_bytes", "9223372036854771712"),
        ("memory/jobs/memory.limit_in_bytes", "3000"),
        ("slice/memory.max", "max"),
        ("memory.max", "5000"),
        ("cpu/memory.max", "1"),
    ):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(text)
    found = memory_module._control_groups(tmp_path, tmp_path / "own")
    assert sorted(found) == [3000.0, 5000.0, 9223372036854771712.0]
    assert memory_module._control_groups(tmp_path, tmp_path / "none") == []


def test_this_process_is_seen() -> None:
    assert 1e6 < (resident() or 0.0) < (machine() or math.inf)
    assert in_words(1.5 * GB) == "1.5 GB"
    assert in_words(200 << 20) == "200 MB"


def test_a_budget_is_over_when_the_memory_is_full() -> None:
    process = Process(0.5 * GB)
    budget = limited(GB, process)
    part = budget.share(0.5)
    assert not part.over()
    process.size = 0.95 * GB
    assert part.over()
    assert budget.left() == 0.0
    assert budget.memory.hit
    process.size = 0.5 * GB
    assert budget.left() == 10.0


def test_without_a_limit_nobody_looks() -> None:
    process = Process(1e30)
    budget = limited(math.inf, process)
    assert not budget.over()
    assert budget.holds(1e30)
    assert process.looks == 0


def test_counted_work_does_not_depend_on_the_process() -> None:
    """A forecast of counted work has a usual start in place of what the process happens to have."""
    for size in (0.0, 0.5 * GB):
        assert limited(GB, Process(size)).holds(80e6) == limited(GB, Process()).holds(80e6)
    timed = [Budget.of_seconds(1e9, Memory(GB, Process(size))) for size in (0.1 * GB, 0.5 * GB)]
    assert [b.holds(80e6) for b in timed] == [True, False]


def test_a_relaxation_that_does_not_fit_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said what it would have needed, and what was proved before stands."""
    problem = Problem.of(net_of(8, 12, 1), Box(np.zeros(8), 0.5))
    set_constant(monkeypatch, "MEMORY_STARTED", 0)
    needed = NUMBER * whole_step(problem).numbers
    begun: list[int] = []

    def building(problem: Problem, specification: Specification) -> Relaxation:
        made = build(problem, specification)
        begun.append(made.problem.size)
        return made

    monkeypatch.setattr("lipcert.method.relaxed.build", building)
    bracket, result = answered(named("hr2"), problem, limited(needed, Process()))
    assert all(size < 29 for size in begun)
    assert result.status is Status.MEMORY_LIMIT
    assert result.to_dict()["status"] == "memory_limit"
    assert verify(result.certificate, problem.network).proved
    assert result.lower <= result.upper < math.inf
    assert any("hr2 of the whole left out: order 29 needs about" in note for note in bracket.notes)
    _, other = answered(named("hr2"), problem, limited(4 * needed, Process()))
    assert begun[-1] == 29
    assert other.status is Status.DONE


def test_parts_are_cut_to_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the whole does not fit, parts of the network do, as large as the memory allows."""
    set_constant(monkeypatch, "MEMORY_STARTED", 0)
    problem = Problem.of(net_of(20, 30, 30, 1), Box(np.zeros(20), 0.3))
    for name in ("product", "interval", "linear", "mixed"):
        named(name).run(problem, Bracket(), Budget.of_work(1e6))
    whole = whole_step(problem)
    room = limited(2.5 * NUMBER * whole.numbers, Process(), 1e6)
    little = limited(0.5 * NUMBER * whole.numbers, Process(), 1e6)
    assert [step.whole for step in plan_whole(problem, room, "tight")] == [True]
    assert plan_whole(problem, little, "tight") == []
    parts = plan(problem, little)
    assert parts
    assert all(p.reduction is not None and little.holds(p.numbers) for p in parts)


def test_the_interior_point_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    set_constant(monkeypatch, "MEMORY_STARTED", 0)
    problem = Problem.of(net_of(8, 12, 1), Box(np.zeros(8), 0.5))
    task = Task.of(problem, "tight")
    needed = NUMBER * solve_numbers(task.relaxation.problem)
    used: list[str] = []
    done = Log(0, Budget.of_work(1.0), None).result(SolverStatus.OPTIMAL)
    for name in ("low_rank.LowRankRun.run", "rank_two.RankTwoRun.run"):

        def answer(*_: object, name: str = name, **__: object) -> RankTwoResult:
            used.append(name)
            return done

        monkeypatch.setattr(f"lipcert.solver.{name}", answer)
    for solver in ("auto", "rank-two"):
        for limit in (0.9 * needed, 1.2 * needed):
            budget = limited(limit, Process())
            choose_solver(solver, task.relaxation.problem, budget)(lambda _: False)
            assert no_room_for_interior(solver, task.relaxation.problem, budget) == (used[-1].startswith("low"))
    assert used == ["low_rank.LowRankRun.run", "rank_two.RankTwoRun.run"] * 2


class Growing(Falling):
    """Its process grows with every turn; what it has is given back when it is released."""

    def __init__(self, bracket: Bracket, process: Process, step: float) -> None:
        super().__init__(bracket, 1e5, 0.5)
        self.process, self.step, self.own, self.told = process, step, 0.0, 0

    def advance(self, budget: Budget) -> None:
        if self.step == math.inf:
            raise MemoryError("no array of that shape")
        super().advance(budget)
        self.own += self.step
        self.process.size += self.step

    def conclude(self) -> None:
        self.told += 1

    def release(self) -> None:
        self.process.size -= self.own
        self.own = 0.0


@pytest.mark.parametrize("step", [0.4 * GB, math.inf])
def test_an_engine_that_fills_the_memory_leaves_the_rest_to_others(step: float) -> None:
    process, bracket = Process(0.2 * GB), bracket_of()
    budget = limited(GB, process, 100.0)
    growing, steady = Growing(bracket, process, step), Falling(bracket, 1e5, 0.3)
    engines: list[Engine] = [growing, steady]
    take_turns(engines, bracket, budget)
    assert growing.ended
    assert growing.told == 1
    assert growing.turns <= 2
    assert process.size == pytest.approx(0.2 * GB)
    assert steady.done > 50
    assert [note for note in bracket.notes if note.startswith("0.5 ended early, out of memory: the limit is 1.0 GB")]


def test_memory_that_nobody_gives_back_ends_all() -> None:
    process, bracket = Process(0.95 * GB), bracket_of()
    engines: list[Engine] = [Falling(bracket, 1e5, 0.3), Falling(bracket, 1e5, 0.5)]
    take_turns(engines, bracket, limited(GB, process, 100.0))
    assert all(e.turns == 0 for e in engines if isinstance(e, Falling))


@pytest.mark.parametrize("method", ["auto", "exact", "tight", "slopes", "linear", "backward"])
def test_a_full_process_still_has_a_proved_bracket(method: str) -> None:
    """The limit was passed before the call began: a bound is proved, and the answer says what ended it."""
    net = net_of(5, 8, 7, 1, seed=2)
    problem = Problem.of(net, Box(np.zeros(5), 0.5))
    _, result = answered(named(method), problem, limited(GB, Process(2 * GB)))
    assert verify(result.certificate, net).proved
    assert math.isfinite(result.upper)
    assert result.status is Status.MEMORY_LIMIT
    assert any("memory" in note for note in result.notes)


@pytest.mark.parametrize("place", ["interval", "linear", "mixed", "lower", "tight"])
def test_a_failed_allocation_is_a_note(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise MemoryError("no array of that shape")

    targets = {"lower": "lipcert.method.lower.search", "tight": "lipcert.method.relaxed.build"}
    monkeypatch.setattr(targets.get(place, f"lipcert.method.cheap.prove_{place}"), fail)
    net = net_of(5, 8, 1, seed=2)
    result = bound(net, Box(np.zeros(5), 0.5), method="tight", work=0.3, memory="4G")
    assert math.isfinite(result.upper)
    assert result.status is Status.MEMORY_LIMIT
    assert any("out of memory: the limit is 4.0 GB" in note for note in result.notes)
    assert (result.lower is None) == (place == "lower")


def test_the_first_allocation_that_fails_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is proved: there is no bracket to return."""

    def fail(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr("lipcert.method.cheap.prove_product", fail)
    net_of(2, 3, 1).save(tmp_path / "net.npz")
    assert run(["bound", str(tmp_path / "net.npz"), "--radius", "1", "--method", "product"]) == 2


def test_workers_share_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lipcert.robustness.certify.resident", lambda: GB)
    assert share_of(5 * GB, 1) == 5 * GB
    assert share_of(5 * GB, 4) == GB
    with pytest.raises(InputError, match="too little for 40 workers"):
        share_of(2 * GB, 40)


def test_a_share_that_is_too_small_is_refused() -> None:
    """By `bound` as well, where it would leave every solver out."""
    net, box = net_of(2, 3, 1), Box(np.zeros(2), 1.0)
    with pytest.raises(InputError, match="memory of 600 MB is too little for 6 workers: each needs 100 MB"):
        bound(net, box, workers=6, memory="600M")
    assert bound(net, box, workers=6, memory="600M", work=0.1).certified  # one process, whatever is asked for
    assert bound(net, box, workers=2, memory="600M", method="interval").certified


def test_certify_says_that_memory_ended_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_module, "resident", lambda: 3 * GB)
    net = net_of(3, 6, 3, seed=1)
    inputs = np.random.default_rng(0).normal(size=(4, 3))
    asked: dict[str, Any] = {"radius": 0.01, "time_limit": 5.0, "attacks": False}
    result = certify(net, inputs, memory="2G", **asked)
    assert result.complete
    assert all(pair.upper is not None for pair in result.pairs)
    assert "3 of 3 constants ended at the memory limit: more may be proved" in result.notes
    assert not any("memory" in note for note in certify(net, inputs, memory="8G", **asked).notes)
