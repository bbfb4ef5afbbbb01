"""Pieces for the tests of jobs: module-level functions, so that other processes can be sent them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lipcert.cli.signals import terminate_like_ctrl_c
from lipcert.jobs import Answer, JobFolder, Piece, local, processes, run_pieces
from lipcert.jobs.piece import Outcome

SHORT = 5
QUESTION = {"network": "0123", "options": {"radius": 0.1}}


def square(number: int) -> dict[str, Any]:
    return {"square": number * number, "third": number / 3, "pair": (number, None)}


def counted(log: str, number: int, seconds: float = 0.0) -> Answer:
    """Leaves a file for every execution, then works a little."""
    (Path(log) / f"{number}-{os.getpid()}-{uuid.uuid4().hex}").touch()
    time.sleep(seconds)
    return Answer(square(number), {"txt": b"%d" % number})


def executions(log: Path) -> Counter[int]:
    return Counter(int(file.name.split("-")[0]) for file in log.iterdir())


def processes_of(log: Path) -> set[int]:
    """The processes that did or do the executions."""
    return {int(file.name.split("-")[1]) for file in log.iterdir()}


def broken(message: str) -> dict[str, Any]:
    raise ValueError(message)


def exits() -> dict[str, Any]:
    sys.exit("enough")


def unjsonable() -> dict[str, Any]:
    return {"value": object()}


def starts_a_program(pid_file: str) -> dict[str, Any]:
    program = subprocess.Popen(["sleep", "600"])
    unfinished = Path(f"{pid_file}.part")
    unfinished.write_text(str(program.pid))
    unfinished.rename(pid_file)  # whoever sees the file sees the number
    program.wait()
    return {}


def hungry(gigabytes: float) -> dict[str, Any]:
    return {"length": len(bytearray(int(gigabytes * 2**30)))}


def dies() -> dict[str, Any]:
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def dies_once(flag: str) -> dict[str, Any]:
    if not Path(flag).exists():
        Path(flag).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return {"pid": os.getpid()}


def surroundings() -> dict[str, Any]:
    """What the worker process looks like from inside."""
    import scipy.linalg  # noqa: F401 - loaded after the limit was set
    from threadpoolctl import threadpool_info

    return {
        "pid": os.getpid(),
        "threads": [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"],
        "ignores": all(signal.getsignal(s) == signal.SIG_IGN for s in (signal.SIGINT, signal.SIGTERM)),
    }


def counted_pieces(log: Path, count: int, seconds: float = 0.0) -> list[Piece]:
    return [Piece(f"piece {i}", counted, (str(log), i, seconds)) for i in range(count)]


def values(outcomes: dict[str, Outcome]) -> dict[str, Any]:
    """All of the outcomes but the time they took."""
    return {name: (o.value, o.error, {e: o.read(e) for e in o.files}) for name, o in outcomes.items()}


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


def until(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    """Wait for an event; the seconds are for what never happens."""
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "the event that the test waits for never came"
        time.sleep(0.01)


def main(folder: str, log: str, workers: str) -> None:
    """A job in a process that the test stops: a few short pieces, then very long ones."""
    terminate_like_ctrl_c()
    pieces = counted_pieces(Path(log), SHORT) + counted_pieces(Path(log), 12, 300.0)[SHORT:]
    with (
        JobFolder.open(folder, "test", QUESTION, resume=True) as job,
        processes(int(workers)) if int(workers) > 1 else local() as executor,
    ):
        run = run_pieces(pieces, job, executor)
    sys.stdout.write(run.end.name)


if __name__ == "__main__":
    main(*sys.argv[1:])
