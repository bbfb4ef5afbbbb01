"""Rows: what one measurement was, in one JSON object a line, with all that is needed to judge or repeat it.

`Measured` is what a case hands over, `Row` the same with where and when it was measured. A file of rows only grows:
the rows of a case are written together, and a line that a kill cut off is removed before the next ones are added.
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
import math
import os
import platform
import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks._measure import ROOT

SKIPPED, FAILED = "skipped", "failed"
CODE = ("src", "benchmarks", "pyproject.toml")  # what decides a figure: a change elsewhere does not make a run another

Point = tuple[float, float | None, float | None]  # seconds, lower, upper


@dataclass(frozen=True)
class Measured:
    """One figure: the question, the method, the bracket, what it cost, and what somebody else has for it.

    `limit` is what ended or could have ended the run, as text: counted work, seconds, or nothing. `known` is the exact
    value where it is known from elsewhere. `peer_proof` says whether the peer's number is proved in floating point.
    """

    network: str
    method: str
    region: str = ""
    norm: str = ""
    lower: float | None = None
    upper: float | None = None
    known: float | None = None
    status: str = "finished"
    limit: str = ""
    work: float | None = None
    wall: float | None = None
    cpu: float | None = None
    gigabytes: float | None = None
    proved: bool | None = None
    verify_seconds: float | None = None
    peer: str | None = None
    peer_value: float | None = None
    peer_seconds: float | None = None
    peer_proof: bool | None = None
    curve: tuple[Point, ...] = ()
    facts: dict[str, float | str] = field(default_factory=dict)
    remark: str = ""


@dataclass(frozen=True)
class Setting:
    """Which code, which packages, which machine."""

    version: str
    commit: str | None
    python: str
    numpy: str
    scipy: str
    blas: str
    threads: int
    cores: int
    processor: str


@dataclass(frozen=True)
class Row:
    """One measurement of a case: part `part` of `parts`, made at `when` (UTC)."""

    case: str
    section: str
    part: int
    parts: int
    when: str
    load_before: float
    load_after: float
    setting: Setting
    measured: Measured

    @property
    def counts(self) -> bool:
        """Whether the row has a figure."""
        return self.measured.status not in (SKIPPED, FAILED)

    def line(self) -> str:
        """As one line of JSON, without its end; numbers that JSON does not have are null."""
        flat = {key: value for key, value in vars(self).items() if key not in ("measured", "setting")}
        told = {k: v for k, v in dataclasses.asdict(self.measured).items() if k not in _DEFAULTS or v != _DEFAULTS[k]}
        return json.dumps(_plain(flat | told | {"setting": dataclasses.asdict(self.setting)}), allow_nan=False)

    @classmethod
    def of_line(cls, line: str) -> Row:
        """The row of a line of JSON; unknown keys are an error, so that a misspelt one is not lost."""
        given: dict[str, Any] = json.loads(line)
        setting = Setting(**given.pop("setting"))
        own = {key: given.pop(key) for key in _OWN}
        given["curve"] = tuple((s, lo, hi) for s, lo, hi in given.pop("curve", ()))
        return cls(**own, setting=setting, measured=Measured(**given))


_DEFAULTS = {
    f.name: {} if f.default is dataclasses.MISSING else f.default
    for f in dataclasses.fields(Measured)
    if f.name not in ("network", "method")
}
_OWN = [f.name for f in dataclasses.fields(Row) if f.name not in ("setting", "measured")]


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {key: _plain(v) for key, v in value.items()}
        case list() | tuple():
            return [_plain(v) for v in value]
        case float() if not math.isfinite(value):
            return None
        case _:
            return value


def read_rows(path: Path) -> list[Row]:
    """All whole rows of a file; none where there is no file. A last line without its end was cut off and is no row."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            rows.append(Row.of_line(line))
        except (ValueError, TypeError, KeyError) as error:
            raise SystemExit(f"{path}, line {number}: not a row of results ({error}); remove the line") from None
    return rows


def append_rows(path: Path, rows: Sequence[Row]) -> None:
    """Add rows to a file, all of them or, after a kill, none that counts; a cut off last line is removed first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        whole = file.read().rfind(b"\n") + 1
        file.truncate(whole)
        file.write("".join(row.line() + "\n" for row in rows).encode())
        file.flush()
        os.fsync(file.fileno())


def done(rows: Iterable[Row], commit: str | None, version: str) -> set[str]:
    """The cases that are there in full for this commit (for this version, where there is no commit)."""
    parts: dict[str, set[int]] = {}
    wanted: dict[str, int] = {}
    for row in rows:
        same = row.setting.commit == commit and row.setting.version == version
        if same and row.counts:
            parts.setdefault(row.case, set()).add(row.part)
            wanted[row.case] = row.parts
    return {case for case, found in parts.items() if len(found) == wanted[case]}


def latest(rows: Iterable[Row]) -> list[Row]:
    """The newest complete run of every case, figures before excuses; in the order of the cases' first rows."""
    runs: dict[str, dict[tuple[bool, str], list[Row]]] = {}
    for row in rows:
        runs.setdefault(row.case, {}).setdefault((row.counts, row.when), []).append(row)
    kept: list[Row] = []
    for by_time in runs.values():
        whole = [key for key, found in by_time.items() if len(found) == found[0].parts]
        kept += sorted(by_time[max(whole)], key=lambda r: r.part) if whole else []
    return kept


def differences(one: Iterable[Row], other: Iterable[Row]) -> list[str]:
    """Parts of cases in both whose brackets are not the same, bit for bit; those that a clock ended are left out."""
    parts = [{(r.case, r.part): r.measured for r in latest(rows) if r.counts} for rows in (one, other)]
    lines = []
    for key in parts[0].keys() & parts[1].keys():
        a, b = parts[0][key], parts[1][key]
        if (a.lower, a.upper) != (b.lower, b.upper) and not a.limit.endswith(" s"):
            lines.append(f"{key[0]}, part {key[1]}: [{a.lower}, {a.upper}] and [{b.lower}, {b.upper}]")
    return sorted(lines)


@cache
def commit_of_the_code() -> str | None:
    """The name that git gives to this code, with "-dirty" where it was changed since; None without git."""
    name = _git("describe", "--always", "--tags")
    return name and (f"{name}-dirty" if _git("status", "--porcelain", "--", *CODE) else name)


def _git(*arguments: str) -> str | None:
    try:
        asked = subprocess.run(["git", *arguments], capture_output=True, text=True, check=True, cwd=ROOT)
    except (OSError, subprocess.CalledProcessError):
        return None
    return asked.stdout.strip()


def setting(commit: str | None) -> Setting:
    """The setting of this process; whoever starts processes asks for `commit` once."""
    import numpy
    import scipy.linalg
    from threadpoolctl import threadpool_info

    import lipcert

    every = [p for p in threadpool_info() if p["user_api"] == "blas"]
    pools = [p for p in every if re.search("numpy|scipy", p["filepath"])] or every  # solvers bring one of their own
    names = sorted({f"{p['internal_api']} {p['version']}" for p in pools})
    return Setting(
        lipcert.__version__,
        commit,
        platform.python_version(),
        numpy.__version__,
        scipy.__version__,
        ", ".join(names) or "unknown",
        max((p["num_threads"] for p in pools), default=1),
        os.cpu_count() or 1,
        _processor(),
    )


def _processor() -> str:
    """The model's name, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
