"""Memory: how much a call may take, how much the process has, and sizes as people write them.

A limit is kept in two ways. Work on large arrays asks before it begins whether they fit (`Budget.holds`), and is left
out if they do not. And a budget looks at the size of the process (`Memory.full`): near the limit, work ends as at a
time limit. Nothing is killed, and no limit of the system is set.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from lipcert.errors import InputError

# Memory was measured by the growth of the process on one and two hidden layers, with matrices of order 300 to 2,000.
MEMORY_SHARE = 0.75  # default limit, as a share of the memory of the machine or of its control group
MEMORY_UNKNOWN = 4 << 30  # bytes: the default limit where the machine does not say how much memory it has
MEMORY_LEAST = 100 << 20  # bytes: the smallest limit that is accepted, about what numpy and scipy take
# Bytes of a process before its first solve. This number stands for the size of the process where the system does not
# tell it, and wherever work is counted, because counted work must not depend on what else the process has in memory.
MEMORY_STARTED = 160 << 20
MEMORY_FULL = 0.9  # share of the limit at which work ends; the rest is for the last proof of a search
NUMBER = 8  # bytes of one number in double precision

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(%|(?:([KMGT])I?)?B?)")
_STATM = Path("/proc/self/statm")
_LOOK = 0.005  # seconds for which the measured size of the process is used again; measuring takes microseconds


@dataclass(eq=False)
class Memory:
    """A limit in bytes, infinite where there is none; `resident` tells what the process has, None where nobody does."""

    limit: float = math.inf
    resident: Callable[[], float | None] = field(default_factory=lambda: resident)
    look: float = _LOOK
    hit: bool = False  # whether the process was ever found too large, or something was left out
    _size: float = 0.0
    _when: float = -math.inf

    def full(self) -> bool:
        """Whether the process is so near to the limit that the work under way must end."""
        if math.isinf(self.limit):
            return False
        now = time.monotonic()
        if now - self._when >= self.look:
            self._when, self._size = now, self.resident() or 0.0
        if self._size < MEMORY_FULL * self.limit:
            return False
        self.hit = True
        return True

    def holds(self, size: float, started: float | None = None) -> bool:
        """Whether so many bytes more fit, above what the process has now or is said to have."""
        if math.isinf(self.limit):
            return True
        base = started if started is not None else self.resident() or MEMORY_STARTED
        return base + size < MEMORY_FULL * self.limit

    def shared(self, parts: int) -> Memory:
        """The limit of each of so many processes."""
        return Memory(self.limit / parts, self.resident, self.look)


def as_size(size: int | float | str | None) -> float:
    """Bytes of "4G", "500M", "75%" (of what there is) or a number of bytes; None is the default of a call."""
    if size is None:
        there = machine()
        return MEMORY_UNKNOWN if there is None else MEMORY_SHARE * there
    if isinstance(size, str):
        return _read(size)
    if isinstance(size, bool) or not isinstance(size, int | float) or not (math.isfinite(size) and size > 0):
        raise InputError.about(
            "memory", f"must be a size such as '4G', '500M' or '75%', or a number of bytes, not {size!r}"
        )
    return _at_least(float(size), f"{size}")


def _read(text: str) -> float:
    match = _SIZE.fullmatch(text.strip().upper())
    if match is None or not 0 < float(match[1]) < 1e18:
        raise InputError.about("memory", f"{text!r}: give a size such as 4G, 500M or 75%")
    if match[2] != "%":
        return _at_least(float(match[1]) * _UNITS[match[3] or ""], text)
    there = machine()
    if float(match[1]) > 100:
        raise InputError.about("memory", f"{text!r}: more than there is; give at most 100%")
    if there is None:
        raise InputError.about(
            "memory", f"{text!r}: this system does not say how much there is; give a size such as 4G"
        )
    return float(match[1]) / 100 * there


def _at_least(size: float, text: str) -> float:
    if size < MEMORY_LEAST:
        least = MEMORY_LEAST >> 20
        raise InputError.about("memory", f"{text}: the libraries alone take more; give at least {least}M")
    return size


def check_share(each: float, limit: float, workers: int) -> None:
    """Refuse a share of the limit that is too little for a worker's process."""
    if each < MEMORY_LEAST:
        least = f"each needs {MEMORY_LEAST >> 20} MB"
        raise InputError(
            f"memory of {in_words(limit)} is too little for {workers} workers: {least}; give more, or fewer workers",
            f"--workers {workers}: memory of {in_words(limit)} is too little, {least}; give fewer, or more --memory",
        )


def in_words(size: float) -> str:
    """The size as a person reads it: 1.5 GB, or 200 MB."""
    return f"{size / 2**30:.1f} GB" if size >= 0.95 * 2**30 else f"{size / 2**20:.0f} MB"


def unwatched(memory: float | int | str | None) -> str | None:
    """A note for the user if this system does not tell its memory or that of the process; None if it tells both."""
    if memory is None and machine() is None:
        return f"this system does not say how much memory it has; {in_words(MEMORY_UNKNOWN)} are taken for it"
    if resident() is None:
        return "this system does not say how much memory a process has; the limit is kept by forecasts alone"
    return None


def machine() -> float | None:
    """Bytes of this machine, or of the control group this process is in where that may have less; None: unknown."""
    try:
        physical = float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
    return min([physical, *_control_groups()]) if physical > 0 else None


def _control_groups(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> list[float]:
    """The limits of this process's groups and of those they are in, in both versions of the interface."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return []
    found: list[float] = []
    for line in lines:
        _, kinds, place = [*line.split(":", 2), "", ""][:3]
        if kinds and "memory" not in kinds.split(","):
            continue
        base, name = (root / "memory", "memory.limit_in_bytes") if kinds else (root, "memory.max")
        parts = [part for part in place.split("/") if part not in ("", "..")]
        for depth in range(len(parts) + 1):
            try:
                found.append(float((base.joinpath(*parts[:depth]) / name).read_text()))
            except (OSError, ValueError):  # no such group is seen from here, or "max"
                continue
    return [limit for limit in found if limit > 0]


def resident() -> float | None:
    """Bytes that this process has in memory now; its peak where the system tells no more; None: it tells nothing."""
    try:
        return float(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        pass
    try:
        import resource
        import sys
    except ImportError:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1.0 if sys.platform == "darwin" else 1024.0)
