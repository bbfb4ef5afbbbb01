"""Shared by all tests: where other people's networks are, if they are here, and reproducible hypothesis runs."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

# Two test processes share the cores: threads of BLAS would only wait for each other. Before numpy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import settings

settings.register_profile("lipcert", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("lipcert")

ROOT = Path(__file__).resolve().parent.parent


def _folder(variable: str, name: str) -> Path:
    folder = Path(os.environ.get(variable, ROOT.parent / "shared" / name))
    if not folder.is_dir():
        pytest.skip(f"{folder} is not here; set {variable} to run this test")
    return folder


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """SIGINT is KeyboardInterrupt, here and in processes started here.

    A shell script starts what it puts in the background with SIGINT ignored, and Python then leaves it so.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that wants a second process beside its own asks for it: whether a core is free is chance."""
    monkeypatch.setattr("lipcert.method.bound.cores", lambda: 1)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Real networks and MNIST; they are not part of the project."""
    return _folder("LIPCERT_DATA", "data")


@pytest.fixture(scope="session")
def reference_folder() -> Path:
    """The published values, cell by cell; they are not part of the project."""
    return _folder("LIPCERT_REFERENCE", "reference")
