"""ONNX files of torch modules, as the exporters of torch write them; kept in a folder and used again."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks.reading._case import Case

# What people call: today's default, and the exporter by tracing with two operator sets.
EXPORTERS: dict[str, dict[str, Any]] = {
    "default": {},
    "traced_13": {"dynamo": False, "opset_version": 13},
    "traced_17": {"dynamo": False, "opset_version": 17},
}


class NotExported(Exception):  # noqa: N818 - named for what it is
    """The exporter itself refused the module; the message is its last line."""


def exported(case: Case, how: str, folder: Path) -> Path:
    """The file of one module by one exporter, with its weights beside it where the exporter puts them there."""
    path = folder / how / f"{case.name}.onnx"
    refusal = path.with_suffix(".refused")
    if refusal.exists():
        raise NotExported(refusal.read_text())
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with silence():
                torch.onnx.export(case.module(), (case.inputs(1).float(),), str(path), **EXPORTERS[how])
        except Exception as error:  # many kinds, all of the exporter
            path.unlink(missing_ok=True)
            lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
            refusal.write_text(f"{type(error).__name__}: {lines[0]}"[:200])
            raise NotExported(refusal.read_text()) from None
    return path


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    """What libraries print past Python goes nowhere."""
    kept = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Nothing printed, warned or logged by a library inside."""
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        _deaf(),
    ):
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)
