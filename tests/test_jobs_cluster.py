"""A job on a real Dask cluster of processes on this machine, one of which is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lipcert.errors import InputError
from lipcert.jobs import JobFolder, Piece, Progress, cluster, local, run_pieces
from lipcert.jobs.executors import worker_count
from tests import job_pieces
from tests.conftest import ROOT
from tests.job_pieces import QUESTION, counted_pieces, executions, until, values


@contextmanager
def dask(folder: Path, program: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """The scheduler or a worker, stopped at the end."""
    paths = [str(ROOT), str(ROOT / "src"), *(p for p in sys.path if p)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-m", f"distributed.cli.dask_{program}", "--no-dashboard", *arguments]
    with (folder / "dask.log").open("ab") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_an_address_that_is_none_is_one_line() -> None:
    """A client that was made by half says nothing more when the process ends."""
    pytest.importorskip("distributed", reason="distributed is not installed: pip install 'lipcert[cluster]'")
    code = """
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

            def murder(progress: Progress) -> None:
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
    monkeypatch.setattr("lipcert.jobs.executors._CONNECT_SECONDS", 0.5)
    with pytest.raises(InputError, match="no Dask scheduler answers there"):
        cluster(address)
