"""Where modules and calls of POSIX are missing, as on Windows, all works, and what is given up is said."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lipcert import Network
from lipcert.budget import budget, memory
from lipcert.jobs import folder
from lipcert.jobs.processes import limit_memory

ABSENT = ("resource", "fcntl", "pwd", "grp", "termios")
HIDING = """
import os, sys
for name in {absent!r}:
    sys.modules[name] = None
for name in ("sched_getaffinity", "sysconf", "getloadavg", "geteuid", "nice"):
    if hasattr(os, name):
        delattr(os, name)
from lipcert.cli.app import run
sys.exit(run(sys.argv[1:]))
"""


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ABSENT:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(memory, "_STATM", tmp_path / "nothing")


@pytest.mark.usefixtures("without")
def test_what_a_process_uses_is_not_known() -> None:
    assert memory.resident() is None
    assert "forecasts alone" in str(memory.unwatched("1 GB"))
    assert budget.processor_seconds() > 0


@pytest.mark.usefixtures("without")
def test_a_worker_without_limits_still_works() -> None:
    assert not limit_memory(1 << 30)


def test_folders_are_used_without_locks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(folder, "fcntl", None)
    held = folder.FolderLock(tmp_path / "lock")
    assert b"process" in (tmp_path / "lock").read_bytes()
    held.release()


def test_the_command_line_without_posix_modules(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    Network.from_weights([rng.normal(size=(3, 2)), rng.normal(size=(1, 3))]).save(tmp_path / "net.npz")
    command = [sys.executable, "-c", HIDING.format(absent=ABSENT), "bound", str(tmp_path / "net.npz")]
    command += ["--radius", "1", "--output", "0", "--method", "linear", "--memory", "1GB", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ, check=False)
    assert done.returncode == 0, done.stderr
    assert '"upper"' in done.stdout
