"""Certificates that version 1.0.0 wrote: every one is still proved, and none proves more than it did.

The files of `data/version-1.0.0` are never written again; its README says what they are. Only names that users have are
used here, so that nothing here follows a change inside.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lipcert
from lipcert import Affine, Network
from lipcert.cli.app import run
from lipcert.polynomial.files import load_problem
from lipcert.proof.file import load_proof
from tests.conftest import ROOT

FOLDER = ROOT / "tests" / "data" / "version-1.0.0"
KINDS = ("bound", "cells", "jacobian", "margins", "union", "polynomial")
FILES = [path for kind in KINDS for path in sorted((FOLDER / kind).glob("*.npz"))]
ABOUT_NETWORKS = [path for path in FILES if path.parent.name not in ("polynomial", "union")]

# By kind: claims that say more than was proved.
BOASTS: dict[str, Any] = {
    "bound": lambda a: {"upper": 0.9 * a["upper"]},
    "cells": lambda a: {"claims": 0.5 * a["claims"]},
    "jacobian": lambda a: {"upper": a["upper"] - 0.5 * (a["upper"] - a["lower"]) - 1e-3},
    "margins": lambda a: {"claim": a["claim"] - 0.5},
    "polynomial": lambda a: {"bound": a["bound"] + (0.5 if str(a["sense"]) == "min" else -0.5)},
}
by_file = pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
about_networks = pytest.mark.parametrize("path", ABOUT_NETWORKS, ids=lambda path: f"{path.parent.name}-{path.stem}")


def contents(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def subject_of(path: Path) -> Any:
    """The network or the problem that a file is about."""
    if path.parent.name == "polynomial":
        return load_problem(path.with_suffix(".pop")).problem
    return lipcert.load(network_file(path))


def network_file(path: Path) -> Path:
    arrays = contents(path)
    if "union" in arrays:
        import io

        with np.load(io.BytesIO(arrays["part_0"].tobytes()), allow_pickle=False) as part:
            arrays = {"network": part["network"]}
    return FOLDER / "networks" / f"{str(arrays['network'])[:12]}.npz"


def written(folder: Path, arrays: dict[str, Any], **changes: Any) -> Path:
    path = folder / "changed.npz"
    np.savez(path, allow_pickle=False, **(arrays | changes))
    return path


def opposite(net: Network) -> Network:
    """Twice the scores with the other sign: constants are larger, margins and signs are on the wrong side."""
    last = net.blocks[-1]
    terms = tuple((source, -2.0 * weight) for source, weight in last.terms)
    return Network.from_blocks((*net.blocks[:-1], type(last)(terms, -2.0 * last.bias, last.activation)))


@by_file
def test_files_are_still_proved_and_say_what_they_are_about(path: Path) -> None:
    answer = lipcert.verify(path, subject_of(path))
    assert answer.proved, answer.reason
    assert answer.statement is not None
    assert answer.statement.sentence in repr(answer)
    assert answer.to_dict()["statement"]["sentence"] == answer.statement.sentence


@pytest.mark.parametrize("name", ["margins/linear-2", "bound/slopes-tanh", "jacobian/tanh"])
def test_files_that_are_saved_again_are_still_proved(name: str, tmp_path: Path) -> None:
    """Their claims need the lines of version 1.0.0, which the new file asks for."""
    path = FOLDER / f"{name}.npz"
    load_proof(path).save(tmp_path / "again.npz")
    assert lipcert.verify(tmp_path / "again.npz", subject_of(path)).proved


@pytest.mark.parametrize("kind", KINDS)
def test_there_are_ten_files_of_every_kind(kind: str) -> None:
    assert len(list((FOLDER / kind).glob("*.npz"))) >= 10


@pytest.mark.parametrize(
    "path", [p for p in FILES if p.parent.name in BOASTS], ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_more_than_was_proved_is_not_proved(path: Path, tmp_path: Path) -> None:
    arrays = contents(path)
    boast = written(tmp_path, arrays, **BOASTS[path.parent.name](arrays))
    assert not lipcert.verify(boast, subject_of(path)).proved


@about_networks
def test_another_network_is_not_proved(path: Path, tmp_path: Path) -> None:
    """Neither as it is, nor where the file says that it is about the other one: then the proof itself must fail."""
    other = opposite(subject_of(path))
    assert not lipcert.verify(path, other).proved
    forged = written(tmp_path, contents(path), network=np.array(other.sha256))
    if path.stem != "linear-2":  # of which both signs are below its claim
        assert not lipcert.verify(forged, other).proved


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "polynomial"])
def test_the_command_line_agrees(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    for path in sorted((FOLDER / kind).glob("*.npz"))[:4]:
        assert run(["verify", str(path), "--network", str(network_file(path))]) == 0
        assert capsys.readouterr().out.startswith("proved")


def test_the_opposite_is_what_it_says() -> None:
    net = Network((Affine(np.eye(2), np.ones(2)), Affine(np.ones((1, 2)), np.zeros(1))), (lipcert.Activation("relu"),))
    x = np.array([[0.5, -3.0], [2.0, 1.0]])
    assert opposite(net).forward(x) == pytest.approx(-2.0 * net.forward(x))
