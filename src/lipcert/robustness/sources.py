"""sources.json in a job folder: the files that network and data came from. Their hashes are in the job's question."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from lipcert.files import write_bytes
from lipcert.files.boundary import located
from lipcert.files.json_kinds import maybe, read_json, record, verbatim, whole
from lipcert.robustness.data import DataSet, Origin

NAME = "sources.json"
_PATH = maybe(verbatim)
_DATA = record(path=verbatim, labels=_PATH, scale=_PATH, first=maybe(whole(least=1)), label_column=_PATH)
_SOURCES = record(network=_PATH, data=maybe(_DATA))


@dataclass(frozen=True)
class Sources:
    """None where it is not known: the call had arrays, not files."""

    network: str | None = None
    data: Origin | None = None


def write_sources(folder: Path, network: str | None, data: DataSet) -> None:
    """Keep the places as absolute paths."""
    origin = data.origin
    told = None
    if origin is not None:
        told = asdict(origin) | {"path": _absolute(origin.path), "labels": _absolute(origin.labels)}
    sources = {"network": _absolute(network), "data": told}
    write_bytes(folder / NAME, (json.dumps(sources, indent=1) + "\n").encode())


def read_sources(folder: Path) -> Sources:
    """What the folder says; nothing when it says nothing."""
    path = folder / NAME
    if not path.exists():
        return Sources()
    with located(path):
        told = _SOURCES(read_json(path), "")
    return Sources(told["network"], None if told["data"] is None else Origin(**told["data"]))


def _absolute(path: str | None) -> str | None:
    return None if path is None else os.path.abspath(path)
