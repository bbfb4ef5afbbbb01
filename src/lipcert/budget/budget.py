"""One clock: how much work a call may do, how much it has done, and how fast work goes here and now.

A budget reads either of two clocks, and whoever holds it need not know which:

    wall     now() is the time of day. `charge` counts, and what was charged against how long it took is the pace.
    counted  now() is the work charged so far. Nothing looks at the time of day, so the same work gives the same answer
             on a quiet machine and on a busy one.

Work is counted in nominal seconds: operations of a kind over the rate of that kind (`RATES`). The pace is how
many seconds of the clock a nominal second takes: 1 on the counted clock, and on the wall clock what the run measured,
so that plans made on a slow or busy machine are plans for that machine.

A budget may have a limit of memory (`memory`): near it, it is over. Work that has no budget, such as a check, gets a
time limit by `within`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from lipcert.budget.memory import MEMORY_STARTED, NUMBER, Memory
from lipcert.budget.threads import RACE_ORDER, RACE_SECONDS, one_thread, product_speed, threads_for
from lipcert.errors import InputError
from lipcert.steps import DENSE, RATES, Expired, Watch, watched

PACE_MEMORY = 4.0  # seconds after which a measurement of the pace has half its weight
PACE_LEAST = 0.02  # nominal seconds: the duration of less work than this says nothing about the pace
CONTENTION_LEAST = 0.2  # processor seconds that this process must have used before contention is estimated from them
# Operations per second of `product_speed` on a machine where dense work goes at its nominal rate.
PRODUCT_RATE = 6.5e10


@dataclass(frozen=True)
class Work:
    """Work of a call so far: counted in nominal seconds, in seconds of all processors, in seconds of the wall clock."""

    counted: float
    processor: float
    wall: float


@dataclass
class Count:
    """How many operations a piece of work took."""

    operations: float


@dataclass(eq=False)
class Meter:
    """Shared by all budgets of one call: the start, the work counted so far, and the pace of every kind of work."""

    repeatable: bool
    counted: float = 0.0
    wall: float = field(default_factory=lambda: time.monotonic())  # as a benchmark may exchange it
    processor: float = field(default_factory=lambda: processor_seconds())
    measured: dict[str, tuple[float, float]] = field(default_factory=dict)  # kind: (nominal seconds, real seconds)
    memory: Memory = field(default_factory=Memory)
    end: float = math.inf  # when the whole call ends, on its clock

    def learn(self, kind: str, nominal: float, real: float) -> None:
        """Take in a measurement. Older ones fade, so that the pace follows a machine that becomes busy or free.

        Short work is ignored: the calls around it, and libraries that are loaded on the way, take longer.
        """
        if nominal < PACE_LEAST:
            return
        old = self.measured.get(kind, (0.0, 0.0))
        fade = PACE_MEMORY / (PACE_MEMORY + real)
        self.measured[kind] = (fade * old[0] + nominal, fade * old[1] + real)

    def pace(self, kind: str) -> float:
        """How many real seconds one nominal second of this kind of work takes now.

        If it was not measured yet, the measured share of the processor is used.
        """
        if self.repeatable:
            return 1.0
        nominal, real = self.measured.get(kind, (0.0, 0.0))
        return real / nominal if nominal > 0 else self.contention()

    def contention(self) -> float:
        """Seconds of the wall clock per second of processor time since the start: above one if other programs run."""
        wall, processor = time.monotonic() - self.wall, processor_seconds() - self.processor
        return max(1.0, wall / processor) if processor >= CONTENTION_LEAST else 1.0


class Budget:
    """The work that may still be done: until `end` on the clock of its meter."""

    def __init__(self, meter: Meter, end: float) -> None:
        self.meter, self.end = meter, end

    @classmethod
    def of_seconds(cls, seconds: float, memory: Memory | None = None) -> Budget:
        """A budget of `seconds` of the wall clock from now on."""
        end = time.monotonic() + seconds
        return cls(Meter(repeatable=False, memory=memory or Memory(), end=end), end)

    @classmethod
    def of_work(cls, work: float, memory: Memory | None = None) -> Budget:
        """A budget of `work` nominal seconds of counted work; nothing in the run depends on the time of day."""
        return cls(Meter(repeatable=True, memory=memory or Memory(), end=work), work)

    @classmethod
    def unlimited(cls) -> Budget:
        return cls.of_seconds(math.inf)

    @property
    def repeatable(self) -> bool:
        """Whether work is counted instead of timed."""
        return self.meter.repeatable

    def now(self) -> float:
        """Time on the clock of this budget in seconds; only differences mean something."""
        return self.meter.counted if self.meter.repeatable else time.monotonic()

    def elapsed(self) -> float:
        """Seconds of the clock since the start of the call."""
        return self.meter.counted if self.meter.repeatable else time.monotonic() - self.meter.wall

    def left(self) -> float:
        """Seconds of the clock until the end, negative when it is over; at most zero when the memory is full."""
        left = self.end - self.now()
        return min(left, 0.0) if self.meter.memory.full() else left

    def over(self) -> bool:
        return self.left() <= 0.0

    def left_in_all(self) -> float:
        """Seconds of the clock until the end of the whole call, of which this budget may be a part."""
        return self.meter.end - self.now()

    def whole(self) -> Budget:
        """The budget of the whole call, of which this budget may be a part."""
        return Budget(self.meter, self.meter.end)

    @property
    def memory(self) -> Memory:
        """The memory limit of the call."""
        return self.meter.memory

    def holds(self, numbers: float) -> bool:
        """Whether arrays of so many numbers fit into memory, all together.

        Counted work must not depend on what else the process has in memory: there a usual start is taken for it.
        """
        started = MEMORY_STARTED if self.meter.repeatable else None
        return self.meter.memory.holds(NUMBER * numbers, started)

    def share(self, fraction: float) -> Budget:
        """A budget of this fraction of what is left; what it spends is spent here too."""
        return self.upto(fraction * max(self.left(), 0.0))

    def upto(self, seconds: float) -> Budget:
        """A budget of so many seconds from now, or of what is left where that is less."""
        return Budget(self.meter, min(self.end, self.now() + seconds))

    @contextmanager
    def enforced(self, grace: float = 0.0) -> Iterator[None]:
        """Inside, `step` ends the work under way once this budget has been over for `grace` seconds of its clock, or
        is expected to be before the step that lies ahead is done.

        A budget that is enforced around this one still holds. Counted work is never cut: where a piece of work ends
        must not depend on the time of day, and what a piece costs is charged when it is done.
        """
        if self.repeatable:
            yield
            return
        limit = Budget(self.meter, self.end + grace)

        def look(operations: float, kind: str) -> None:
            ahead = limit.expected(operations, kind or DENSE) if operations else 0.0
            if limit.left() <= ahead:
                raise Expired

        with watched(Watch(look)):
            yield

    def charge(self, operations: float, kind: str = DENSE) -> None:
        """Count work that was just done."""
        self.meter.counted += operations / RATES[kind]

    def add(self, counted: float) -> None:
        """Count work in nominal seconds that another budget counted, for example in another process."""
        self.meter.counted += counted

    @contextmanager
    def measured(self, operations: float, kind: str = DENSE) -> Iterator[Count]:
        """Count the work done inside, also when it ends by an exception, and learn from how long it took.

        Where the work is known only afterwards, set the `operations` of what is yielded.
        """
        before, count = time.monotonic(), Count(operations)
        try:
            yield count
        finally:
            self.charge(count.operations, kind)
            if not self.meter.repeatable:
                self.meter.learn(kind, count.operations / RATES[kind], time.monotonic() - before)

    def expected(self, operations: float, kind: str = DENSE) -> float:
        """Expected seconds of the clock for this many operations."""
        return operations / RATES[kind] * self.meter.pace(kind)

    def affordable(self, seconds: float, kind: str = DENSE) -> float:
        """Expected number of operations within these seconds of the clock: the inverse of `expected`."""
        return seconds * RATES[kind] / self.meter.pace(kind)

    def threads(self, order: float) -> AbstractContextManager[None]:
        """Set the BLAS threads inside: as many as help with matrices of this order; one if work is counted."""
        return one_thread() if self.meter.repeatable else threads_for(order)

    def effort(self) -> float:
        """Work of this process so far, to form ratios: counted work, or processor seconds, which other programs do not
        stretch."""
        return self.meter.counted if self.meter.repeatable else time.process_time()

    def calibrate(self) -> None:
        """Measure the pace of dense work by products of matrices, if it was not measured yet."""
        if self.meter.repeatable or DENSE in self.meter.measured:
            return
        with threads_for(RACE_ORDER):
            speed = product_speed()
        self.meter.learn(DENSE, RACE_SECONDS * speed / PRODUCT_RATE, RACE_SECONDS)

    def spent(self) -> Work:
        """The work since the meter was started."""
        wall, processor = time.monotonic() - self.meter.wall, processor_seconds() - self.meter.processor
        return Work(self.meter.counted, processor, wall)


def processor_seconds() -> float:
    """Processor time of this process and of its children that have ended."""
    try:
        import resource
    except ImportError:  # no such thing on this system: the process alone
        return time.process_time()
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


Tell = Callable[[float, str], None]  # called with the seconds that a check expects to take, and the reason


@contextmanager
def within(seconds: float | None, tell: Tell | None = None) -> Iterator[None]:
    """Raise `Expired` at the first step after so many seconds; None is no limit."""
    limit = math.inf if seconds is None else seconds
    if not (isinstance(limit, int | float) and limit > 0):
        raise InputError.about("time_limit", f"must be a positive number of seconds, not {seconds!r}")
    end = time.monotonic() + limit

    def look(_operations: float, _kind: str) -> None:
        if time.monotonic() > end:
            raise Expired(f"not proved within the limit of {limit:g} s")

    with watched(Watch(look) if tell is None else Watch(look, tell)):
        yield
