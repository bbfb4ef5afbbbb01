"""SIGTERM, which timeout, SLURM and docker send, ends a command as Ctrl-C does: the best bracket so far is kept."""

from __future__ import annotations

import signal
import time
from types import FrameType

# Seconds in which several SIGTERMs count as one: `timeout` signals its child and then the child's group, within a
# millisecond, and the second signal must not interrupt the printing of what the first one stopped.
_SAME_SIGNAL_SECONDS = 1.0


def terminate_like_ctrl_c() -> None:
    """Make SIGTERM raise KeyboardInterrupt, in the main thread; a SIGTERM that the caller ignores stays ignored."""
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN:
        signal.signal(signal.SIGTERM, _Interrupt())


class _Interrupt:
    """The handler, which remembers when it last raised."""

    def __init__(self) -> None:
        self._last: float | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature of a handler
        now = time.monotonic()
        if self._last is None or now - self._last > _SAME_SIGNAL_SECONDS:
            self._last = now
            raise KeyboardInterrupt
