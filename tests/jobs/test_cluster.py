"""A job on a real Dask cluster of processes on this machine, one of which is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from lipcert import Box, Network, bound, certify
from lipcert.errors import InputError
from lipcert.jobs import JobFolder, JobProgress, Piece, cluster, local, run_pieces
from lipcert.jobs.executors import worker_count
from tests import job_pieces
from tests.conftest import ROOT
from tests.constants import set_constant
from tests.job_pieces import QUESTION, counted_pieces, executions, until, values


def environment() -> dict[str, str]:
    """With what is imported here, for processes in another folder."""
    paths = [str(ROOT), str(ROOT / "src"), *(p for p in sys.path if p)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONWARNINGS": "ignore"}


@contextmanager
def dask(folder: Path, program: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """The scheduler or a worker, stopped at the end."""
    command = [sys.executable, "-m", f"distributed.cli.dask_{program}", "--no-dashboard", *arguments]
    with (folder / "dask.log").open("ab") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment(), stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_an_address_that_is_none_is_one_line() -> None:
    """A client that was made by half says nothing more when the process ends."""
    pytest.importorskip("distributed", reason="distributed is not installed: pip install 'lipcert[cluster]'")
    code = """
from lipcert import Box, Network, bound, certify
from lipcert.errors import InputError
from lipcert.jobs import cluster
try:
    cluster("nowhere")
except InputError as error:
    print(error)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stderr == ""
    assert ended.stdout.startswith("nowhere: no Dask scheduler answers there (")
    assert ended.stdout.endswith("; give that of one, tcp://host:port\n")


@pytest.mark.filterwarnings("ignore:::distributed", "ignore:::dask", "ignore:::tornado")
def test_a_cluster_that_loses_a_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed", reason="distributed is not installed: pip install 'lipcert[cluster]'")
    log, home, where = tmp_path / "log", tmp_path / "job", tmp_path / "scheduler.json"
    log.mkdir()
    worker = ("--scheduler-file", str(where), "--no-nanny", "--nthreads", "1", "--host", "127.0.0.1")
    pieces = [*counted_pieces(log, 30, 0.1), Piece("raises", job_pieces.broken, ("no",))]
    with (
        dask(tmp_path, "scheduler", "--port", "0", "--host", "127.0.0.1", "--scheduler-file", str(where)),
        dask(tmp_path, "worker", *worker) as victim,
        dask(tmp_path, "worker", *worker),
    ):
        until(lambda: (tmp_path / "dask.log").read_text().count("Registered to") >= 2)
        address = json.loads(where.read_text())["address"]
        with cluster(address) as executor, JobFolder.open(home, "test", QUESTION) as folder:

            def murder(progress: JobProgress) -> None:
                if progress.done == 5:
                    victim.kill()

            assert worker_count(executor) == 2
            run = run_pieces(pieces, folder, executor, murder)
    assert victim.returncode == -9
    assert run.complete
    assert run.failures == {"raises": "ValueError: no"}
    assert sum(executions(log).values()) <= 30 + 3  # what the dead worker had begun, or done and not handed over
    with JobFolder.open(home, "test", QUESTION, resume=True) as folder:
        again = run_pieces(pieces, folder, local())
    assert again.resumed == 31
    assert values(again.outcomes) == values(run.outcomes)
    assert run.outcomes["piece 7"].read("txt") == b"7"
    set_constant(monkeypatch, "_CONNECT_SECONDS", 0.5)
    with pytest.raises(InputError, match="no Dask scheduler answers there"):
        cluster(address)


def test_a_scheduler_that_dies_is_said_in_words(tmp_path: Path) -> None:
    """The client of Dask has no say on stderr; what there is of the job is kept."""
    pytest.importorskip("distributed", reason="distributed is not installed: pip install 'lipcert[cluster]'")
    rng, where = np.random.default_rng(0), tmp_path / "scheduler.json"
    Network.from_weights([rng.normal(size=(60, 8)), rng.normal(size=(60, 60)), rng.normal(size=(3, 60))]).save(
        tmp_path / "net.npz"
    )
    np.save(tmp_path / "data.npy", rng.random((4, 8)))
    command = [sys.executable, "-m", "lipcert", "certify", "net.npz", "data.npy", "--radius", "0.1", "--out", "job"]
    with (
        dask(tmp_path, "scheduler", "--port", "0", "--host", "127.0.0.1", "--scheduler-file", str(where)) as scheduler,
        dask(tmp_path, "worker", "--scheduler-file", str(where), "--no-nanny", "--nthreads", "1"),
    ):
        until(lambda: "Registered to" in (tmp_path / "dask.log").read_text())
        address = json.loads(where.read_text())["address"]
        asked = [*command, "--time-limit", "600", "--cluster", address]
        child = subprocess.Popen(
            asked, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert child.stderr is not None
        while "pair constants" not in child.stderr.readline():
            assert child.poll() is None
        scheduler.kill()
        out, err = child.communicate(timeout=120)
    assert child.returncode == 1
    assert "the workers are gone: the pieces that are missing were not done" in out
    assert all("pair constants" in line for line in err.splitlines())


def test_a_dead_address_is_refused_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed", reason="distributed is not installed: pip install 'lipcert[cluster]'")
    set_constant(monkeypatch, "_CONNECT_SECONDS", 0.2)
    dead, seen = "tcp://127.0.0.1:9", list[object]()
    net = Network.from_weights([np.eye(2), np.ones((2, 2))])
    with pytest.raises(InputError, match="no Dask scheduler answers there"):
        bound(net, Box([0.0, 0.0], 1.0), output=0, scheduler=dead, on_progress=seen.append)
    with pytest.raises(InputError, match="no Dask scheduler answers there"):
        certify(net, np.zeros((2, 2)), radius=0.1, scheduler=dead, out=tmp_path / "job")
    assert not seen
    assert not (tmp_path / "job").exists()


def test_a_bracket_outlives_its_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster answers at first, and is gone when the search wants its workers."""

    def gone(address: str) -> Executor:
        raise InputError(f"{address}: no Dask scheduler answers there")

    monkeypatch.setattr("lipcert.method.bound.cluster", lambda _: local())
    monkeypatch.setattr("lipcert.method.bracket.cluster", gone)
    rng = np.random.default_rng(0)
    net = Network.from_weights([rng.normal(size=(9, 3)), rng.normal(size=(9, 9)), rng.normal(size=(1, 9))])
    found = bound(net, Box(np.zeros(3), 1.0), scheduler="tcp://nowhere:1", time_limit=1.0)
    assert found.certified
    assert "tcp://nowhere:1: no Dask scheduler answers there; this process worked alone" in found.notes
