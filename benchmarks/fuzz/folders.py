"""Edited job folders: what `certify --resume` and `verify FOLDER` make of them.

A job of a tiny classifier is done once, with constants, refined inputs and without attacks. Its files are then edited
as a forger would: bounds and radii that are too good, indices of other inputs, certificates of other pairs, JSON that
is none. Beside every certified radius stands the distance to a point of another class, found by plain evaluation.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

import lipcert
from benchmarks.fuzz._damage import damaged
from benchmarks.fuzz._harness import Verdict
from benchmarks.fuzz._hostile import in_a_file
from benchmarks.fuzz._problems import Random
from lipcert import Network
from lipcert.cli.app import run
from lipcert.rounding import Array

JOBS = 4  # different ones
INPUTS, CLASSES = 5, 3
RADII = (0.01, 0.05, 0.2)
WILD: tuple[Any, ...] = (0, -1, 1, 1e-6, 5.0, 1e300, -1e300, None, "x", [], {}, True, 10**30, 0.5)
KEYS = (
    "upper",
    "radius",
    "input",
    "label",
    "i",
    "j",
    "lower",
    "method",
    "certified_radius",
    "status",
    "proved",
    "name",
)
Content = dict[str, bytes]


@dataclass(frozen=True, eq=False)
class Job:
    """A network, its data, the files of an honest folder, and how far a point of another class is at most."""

    net: Network
    inputs: Array
    files: Content
    reach: Array

    def certify(self, folder: Path) -> lipcert.Certification:
        about: dict[str, Any] = {"radius": RADII, "method": "linear", "refine": 1.0, "attacks": False}
        return lipcert.certify(self.net, self.inputs, out=str(folder), resume=folder.exists(), **about)


@cache
def job(index: int) -> Job:
    """Always the same questions; the folder is done here, once."""
    rng = np.random.default_rng([index, 11])
    sizes = [(5, 2), (4, 5), (CLASSES, 4)]
    net = Network.from_weights([rng.normal(size=s) for s in sizes], [0.3 * rng.normal(size=m) for m, _ in sizes])
    inputs = rng.normal(size=(INPUTS, 2))
    empty = Job(net, inputs, {}, _reach(net, inputs))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "job"
        empty.certify(folder)
        files = {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
    return replace(empty, files={name: content for name, content in files.items() if "lock" not in name})


def _reach(net: Network, inputs: Array) -> Array:
    """The distance, in the infinity norm, to the nearest point of a fine grid where another class wins by far."""
    steps = np.linspace(-1.0, 1.0, 81)
    offsets = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
    found = []
    for x in inputs:
        label = int(np.argmax(net.forward(x[None, :])[0]))
        scores = net.forward(x + offsets)
        lost = np.delete(scores, label, axis=1).max(axis=1) > scores[:, label] + 1e-6
        found.append(np.abs(offsets[lost]).max(axis=1).min(initial=np.inf))
    return np.array(found)


@dataclass(frozen=True, eq=False)
class Edited:
    """A job, and the files of its folder that are not what they were; None where one is gone."""

    index: int
    changed: dict[str, bytes | None]


class Folders:
    name = "folders"

    def make(self, rng: Random, number: int) -> Edited:
        index = number % JOBS
        files, changed = job(index).files, {}
        for _ in range(int(rng.integers(1, 4))):
            name = str(rng.choice(sorted(files)))
            changed[name] = _edited(rng, files, name)
        return Edited(index, changed)

    def judge(self, case: Edited) -> Verdict:
        own, verdict = job(case.index), Verdict()
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "job"
            _lay_out(own, case, folder)
            self._verified(own, folder, verdict)
            shutil.rmtree(folder)
            _lay_out(own, case, folder)
            try:
                result = own.certify(folder)
            except lipcert.SoundnessError as error:
                verdict.counts.append("contradiction")
                verdict.detail = str(error)
                return verdict
            except lipcert.LipcertError as error:
                verdict.counts.append("resume refused")
                if "\n" in str(error):
                    verdict.fault, verdict.detail = "many lines", str(error)[:200]
                return verdict
        verdict.counts.append("resumed")
        radius = np.asarray(result.certified_radius)
        if not np.all(radius < own.reach):
            k = int(np.argmax(~(radius < own.reach)))
            verdict.fault = "resume believes"
            verdict.detail = f"input {k}: radius {radius[k]!r}, but another class wins at {own.reach[k]!r}"
        return verdict

    def _verified(self, own: Job, folder: Path, verdict: Verdict) -> None:
        """Exit code 0 only where every radius in the folder is below the distance of another class."""
        own.net.save(folder.parent / "net.npz")
        np.save(folder.parent / "inputs.npy", own.inputs)
        given = ["--network", str(folder.parent / "net.npz"), "--data", str(folder.parent / "inputs.npy")]
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()) as said:
            code = run(["verify", str(folder), *given, "--json"])
        verdict.counts.append(f"verify exits {code}")
        if code not in (0, 1, 2):
            verdict.fault, verdict.detail = f"verify exits {code}", said.getvalue()[:300]
        if code == 0:
            with np.load(folder / "arrays.npz", allow_pickle=False) as stored:
                claimed = np.asarray(stored["certified_radius"])
            if not np.all(claimed < own.reach):
                verdict.fault, verdict.detail = "verify believes", f"{claimed!r}, not {own.reach!r}"

    def smaller(self, case: Edited) -> Iterator[Edited]:
        """One file less that is changed."""
        for name in case.changed if len(case.changed) > 1 else ():
            yield replace(case, changed={n: c for n, c in case.changed.items() if n != name})

    def save(self, case: Edited, stem: Path) -> dict[str, Any]:
        own = stem.with_name(stem.name + "-job")
        shutil.rmtree(own, ignore_errors=True)
        _lay_out(job(case.index), case, own)
        job(case.index).net.save(stem.with_suffix(".npz"))
        return {"index": case.index, "changed": sorted(case.changed), "folder": own.name}

    def load(self, stem: Path, about: dict[str, Any]) -> Edited:
        own = stem.with_name(stem.name + "-job")
        changed = {n: (own / n).read_bytes() if (own / n).exists() else None for n in about["changed"]}
        return Edited(about["index"], changed)


def _lay_out(own: Job, case: Edited, folder: Path) -> None:
    for name, content in (own.files | case.changed).items():
        if content is not None:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)


def _edited(rng: Random, files: Content, name: str) -> bytes | None:
    kind = Path(name).suffix
    if rng.random() < 0.05:
        return None
    if rng.random() < 0.1:  # the content of another file of its kind: another pair's proof, say
        return files[str(rng.choice([n for n in sorted(files) if Path(n).suffix == kind]))]
    if kind == ".npz" and rng.random() < 0.5:  # a number at an end of its type, and a claim that is too good
        return in_a_file(files[name], int(rng.integers(1 << 30)))
    if kind == ".json" and rng.random() < 0.85:
        return _edited_json(rng, files[name])
    return damaged(rng, kind, files[name])


def _edited_json(rng: Random, content: bytes) -> bytes:
    """A value changed: one that matters more often than another."""
    value = json.loads(content)
    places = list(_places(value))
    telling = [place for place in places if place[1] in KEYS]
    chosen = telling if telling and rng.random() < 0.7 else places
    holder, key = chosen[int(rng.integers(len(chosen)))]
    old = holder[key]
    if isinstance(old, int | float) and not isinstance(old, bool) and rng.random() < 0.5:
        holder[key] = old * float(rng.choice([0.0, 0.01, 0.5, 2.0, 100.0]))
    else:
        holder[key] = WILD[int(rng.integers(len(WILD)))]
    return json.dumps(value).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every value with what holds it."""
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from _places(value[key])
