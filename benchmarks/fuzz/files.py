"""Damaged files of every format: each is read, or refused by one line, soon and in little memory.

.npz, .mat, .nnet and .onnx networks, .vnnlib properties, .pop, .json, .gms and .in problems, half-spaces, .csv, .npy,
.npz and idx data, certificates of every kind. ONNX files need the package onnx, and are compared with onnxruntime now
and then where that is installed.
"""

from __future__ import annotations

import io
import os
import signal
import tempfile
import threading
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import lipcert
from benchmarks.fuzz._damage import damaged
from benchmarks.fuzz._harness import Verdict
from benchmarks.fuzz._problems import Random
from benchmarks.fuzz._sources import graphs, sources
from lipcert.budget.memory import resident
from lipcert.polynomial.files import load_problem
from lipcert.proof.file import load_proof
from lipcert.readers.halfspaces import read_halfspaces
from lipcert.readers.vnnlib import read_property
from lipcert.robustness.data import read_data

SECONDS = 10.0  # for one file, by the clock of this process's processor
MEMORY = 1 << 30  # bytes that a file may add to the process
ONNX_SHARE = 0.3
COMPARE = 10  # every so many graphs that are read
READERS: dict[str, Callable[[str], Any]] = {
    ".vnnlib": read_property,
    ".gz": read_property,
    ".pop": load_problem,
    ".json": load_problem,
    ".csv": read_data,
    ".npy": read_data,
    ".idx": read_data,
    ".gms": load_problem,
    ".in": load_problem,
    ".sides.csv": partial(read_halfspaces, inputs=3),
    ".sides.npz": partial(read_halfspaces, inputs=3),
    ".proof.npz": load_proof,
    ".jacobian.npz": load_proof,
    ".cells.npz": load_proof,
    ".union.npz": load_proof,
    ".margins.npz": load_proof,
    ".polynomial.npz": load_proof,
}


@dataclass(frozen=True)
class Damaged:
    """A file, and one beside it: its bytes, or what a link there points to."""

    source: str
    suffix: str
    content: bytes
    beside: bytes | None = None
    link: str | None = None
    number: int = 0


class TooLong(BaseException):
    """Not an Exception: no reader may take it for a damaged file."""


class Files:
    name = "files"

    def make(self, rng: Random, number: int) -> Damaged:
        models = graphs() if rng.random() < ONNX_SHARE else ()
        if models:
            return _damaged_graph(rng, models[int(rng.integers(len(models)))], number)
        chosen = sources()[int(rng.integers(len(sources())))]
        content = damaged(rng, chosen.suffix, chosen.content)
        return Damaged(chosen.name, chosen.suffix, content, number=number)

    def judge(self, case: Damaged) -> Verdict:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"model{case.suffix}"
            path.write_bytes(case.content)
            _lay_beside(case, Path(folder))
            before, peak, start = resident() or 0.0, _peak(), time.process_time()
            verdict, value = _read(path, case.suffix)
            spent, grown = time.process_time() - start, _peak() - before if _peak() > peak else 0.0
            if not verdict.fault and spent > SECONDS:
                verdict.fault, verdict.detail = "slow", f"{spent:.0f} s for {len(case.content):,} bytes"
            if not verdict.fault and grown > MEMORY:
                verdict.fault, verdict.detail = "memory", f"{grown / 2**30:.1f} GB for {len(case.content):,} bytes"
            if not verdict.fault and value is not None and _grows(case):
                verdict.fault, verdict.detail = "packed", "a member that may grow a million times was unpacked"
            if case.suffix == ".onnx" and value is not None and not verdict.fault:
                _check_graph(verdict, case, value, path)
        verdict.counts = [f"{case.suffix[1:]} {word}" for word in verdict.counts]
        return verdict

    def smaller(self, case: Damaged) -> Iterator[Damaged]:
        """With pieces cut out, of half the length, a quarter, and so on."""
        size = len(case.content) // 2
        while size >= max(1, len(case.content) // 256):
            for start in range(0, len(case.content), size):
                yield replace(case, content=case.content[:start] + case.content[start + size :])
            size //= 2

    def save(self, case: Damaged, stem: Path) -> dict[str, Any]:
        path = stem.with_name(stem.name + "-file" + case.suffix)
        path.write_bytes(case.content)
        if case.beside is not None:
            stem.with_name(stem.name + "-beside").write_bytes(case.beside)
        about = {"source": case.source, "suffix": case.suffix, "link": case.link, "number": case.number}
        return about | {"beside": case.beside is not None}

    def load(self, stem: Path, about: dict[str, Any]) -> Damaged:
        content = stem.with_name(stem.name + "-file" + about["suffix"]).read_bytes()
        beside = stem.with_name(stem.name + "-beside").read_bytes() if about["beside"] else None
        return Damaged(about["source"], about["suffix"], content, beside, about["link"], about["number"])


def _grows(case: Damaged) -> bool:
    """Whether an archive has members that are neither stored nor deflated: small ones of these can be gigabytes."""
    if not case.suffix.endswith(".npz"):
        return False
    with zipfile.ZipFile(io.BytesIO(case.content)) as archive:
        return any(m.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for m in archive.infolist())


def _read(path: Path, suffix: str) -> tuple[Verdict, Any]:
    reader = READERS.get(suffix, READERS.get("." + suffix.rpartition(".")[2], lipcert.load))
    reader = read_data if ".idx" in suffix or ".data" in suffix else reader
    try:
        with warnings.catch_warnings(), _limited():
            warnings.simplefilter("error")  # a warning that leaks out of a reader is a fault
            return Verdict(["read"]), reader(str(path))
    except lipcert.LipcertError as error:
        message = str(error)
        if "\n" in message or len(message) > 2000:
            return Verdict(["refused"], fault="many lines", detail=message[:300]), None
        return Verdict(["refused"]), None
    except TooLong:
        return Verdict(
            ["slow"], fault="slow", detail=f"more than {SECONDS:.0f} s for {path.stat().st_size:,} bytes"
        ), None


def _peak() -> float:
    """Bytes that this process had at most so far; 0 where the system does not say."""
    try:
        import resource
    except ImportError:
        return 0.0
    return 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@contextmanager
def _limited() -> Iterator[None]:
    """An alarm ends what takes too long, where this system has alarms; seconds are those of the processor."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(*_: Any) -> None:
        raise TooLong

    before = signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _damaged_graph(rng: Random, graph: Any, number: int) -> Damaged:
    from benchmarks.fuzz._onnx_damage import DATA, damage

    with tempfile.TemporaryDirectory() as folder:
        harm = damage(graph, rng, Path(folder))
        beside = Path(folder) / DATA
        link = os.readlink(beside) if beside.is_symlink() else None
        data = beside.read_bytes() if link is None and beside.exists() else None
        content = (Path(folder) / "model.onnx").read_bytes()
    return Damaged(f"{graph.name}, {harm}", ".onnx", content, data, link, number)


def _lay_beside(case: Damaged, folder: Path) -> None:
    from_name = folder / "model.onnx.data"
    if case.link is not None:
        os.symlink(case.link, from_name)
    elif case.beside is not None:
        from_name.write_bytes(case.beside)


def _check_graph(verdict: Verdict, case: Damaged, network: Any, path: Path) -> None:
    """No tensor from outside the folder is used, and onnxruntime computes the same where it reads the file too."""
    from benchmarks.fuzz._onnx_damage import left_the_folder

    if left_the_folder(path.parent):
        verdict.fault, verdict.detail = "followed", "a tensor lies outside the folder, or behind a link"
    elif case.number % COMPARE == 0 and _differs(network, path):
        verdict.fault, verdict.detail = "differs", "onnxruntime computes something else"


def _differs(network: Any, path: Path) -> bool:
    try:
        import onnxruntime
    except ImportError:
        return False
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(str(path), options)
        value = session.get_inputs()[0]
        shape = [n if isinstance(n, int) and n > 0 else 1 for n in value.shape]
        kind = np.float64 if "double" in value.type else np.float32
        points = np.random.default_rng(0).standard_normal((3, network.inputs)).astype(kind)
        output = next(o.name for o in session.get_outputs() if "tensor(" in o.type and "int" not in o.type)
        found = np.stack([np.ravel(session.run([output], {value.name: x.reshape(shape)})[0]) for x in points])
    except Exception:  # it does not read the file, or not in this way
        return False
    if any("softmax" in note.lower() for note in network.notes) or not np.all(np.isfinite(found)):
        return False  # left out, as it should be
    ours = network.forward(points.astype(np.float64))
    if found.shape != ours.shape:
        return True
    return not np.max(np.abs(ours - found)) <= 1e-4 * max(float(np.max(np.abs(found))), 1e-6)
