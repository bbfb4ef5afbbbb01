"""Certificates that older versions wrote: every one is still proved, and none proves more than it did.

The files of `data/certificates` are never written again; its README says what they are. Only names that users have are
used here: `lipcert.load`, `lipcert.verify` and the command line, so that nothing here follows a change inside.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lipcert
from lipcert import Affine, Network
from lipcert.cli.app import run

FOLDER = Path(__file__).parent / "data" / "certificates"
FILES = sorted(FOLDER.glob("*.npz"))
MARGINS = [path for path in FILES if path.name.startswith("margins")]
CONSTANTS = [path for path in FILES if path not in MARGINS]

SMALL = [path for path in CONSTANTS if path.stat().st_size < 20_000]  # for what need not be asked of all

of_constants = pytest.mark.parametrize("path", CONSTANTS, ids=lambda path: path.stem)
of_margins = pytest.mark.parametrize("path", MARGINS, ids=lambda path: path.stem)


def contents(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


@cache
def networks() -> dict[str, Path]:
    """By hash: a network that is read as another one today is missed here."""
    return {lipcert.load(path).sha256: path for path in sorted((FOLDER / "networks").glob("*.npz"))}


def network_of(path: Path) -> Path:
    return networks()[str(contents(path)["network"])]


def written(folder: Path, arrays: dict[str, Any], **changes: Any) -> Path:
    path = folder / "changed.npz"
    np.savez(path, allow_pickle=False, **(arrays | changes))
    return path


def opposite(net: Network) -> Network:
    """Twice the scores with the other sign: constants are larger, margins are on the wrong side."""
    last = net.affines[-1]
    return Network((*net.affines[:-1], Affine(-2.0 * last.weight, -2.0 * last.bias)), net.activations)


@of_constants
def test_constants_are_still_proved(path: Path) -> None:
    answer = lipcert.verify(path, lipcert.load(network_of(path)))
    assert answer.proved, answer.reason
    assert answer.claim == contents(path)["upper"]
    assert 0.9 * answer.claim < answer.upper <= answer.claim


@of_constants
def test_a_lower_claim_is_not_proved(path: Path, tmp_path: Path) -> None:
    arrays = contents(path)
    lower = written(tmp_path, arrays, upper=0.9 * arrays["upper"])
    answer = lipcert.verify(lower, lipcert.load(network_of(path)))
    assert not answer.proved
    assert answer.upper > answer.claim


@of_constants
def test_another_network_is_not_proved(path: Path) -> None:
    answer = lipcert.verify(path, opposite(lipcert.load(network_of(path))))
    assert not answer.proved
    assert np.isinf(answer.upper)


@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.stem)
def test_another_network_is_not_proved_under_its_own_hash(path: Path, tmp_path: Path) -> None:
    """The file says that it is about the other one: the proof itself must fail."""
    other = opposite(lipcert.load(network_of(path)))
    forged = written(tmp_path, contents(path), network=np.array(other.sha256))
    assert not lipcert.verify(forged, other).proved


@of_margins
def test_margins_are_still_proved(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", str(path), "--network", str(network_of(path)), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["proved"] is True
    assert [row["claim"] for row in answer["margins"]] == contents(path)["claim"].tolist()
    assert all(row["upper"] <= row["claim"] < 0 for row in answer["margins"])


@of_margins
def test_lower_margins_are_not_proved(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arrays, net = contents(path), str(network_of(path))
    for k in range(len(arrays["claim"])):
        claim = arrays["claim"].copy()
        claim[k] *= 1.1  # it is negative
        assert run(["verify", str(written(tmp_path, arrays, claim=claim)), "--network", net]) == 1
        assert "not proved" in capsys.readouterr().out


@of_margins
def test_margins_of_another_network_are_not_proved(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other, net = opposite(lipcert.load(network_of(path))), str(tmp_path / "net.npz")
    other.save(net)
    for file in (path, written(tmp_path, contents(path), network=np.array(other.sha256))):
        assert run(["verify", str(file), "--network", net]) == 1
        assert "not proved" in capsys.readouterr().out


def test_no_file_is_missing() -> None:
    """Every one of the table, and all kinds of proofs that version 1 knows."""
    table = (FOLDER / "README.md").read_text(encoding="utf-8").splitlines()
    named = [line.split("|")[1].strip() for line in table if line.startswith("| ")]
    named = [name for name in named if name not in ("file", "---")]
    assert sorted(named) == sorted(path.stem for path in [*FILES, *(FOLDER / "networks").glob("*.npz")])
    assert len(CONSTANTS) == 56
    assert len(MARGINS) == 2
    assert len(networks()) == 17
    kept = [contents(path) for path in CONSTANTS]
    assert {int(a["certificate"]) for a in kept} == {1}
    assert {int(contents(path)["margins"]) for path in MARGINS} == {1}
    lifts = {f"{name}{free}" for name in ("backward", "forward", "both") for free in ("", "-free")}
    assert {str(a["method"]) for a in kept} == {"product", "interval", "mixed", "shor", "hr2", "tight", "tree", *lifts}
    norms = {(str(a["norm"]), str(a.get("output_norm", ""))) for a in kept}
    pairs = {("1", "2"), ("1", "inf"), ("2", "1"), ("2", "2"), ("inf", "1"), ("inf", "2"), ("inf", "inf")}
    assert norms == pairs | {("1", ""), ("2", ""), ("inf", "")}
    assert {_region(a) for a in kept} == {"box", "ball", "clipped ball", "everywhere"}
    assert {bool(a["reduction"][1]) for a in kept if "reduction" in a} == {False, True}  # by signs, Euclidean
    assert {int(kind) for a in kept for kind in a.get("leaf_kinds", ())} == {0, 1, 2}  # interval, empty, tight
    tables = [a[name] for a in kept for name in a if name.endswith("cuts")]
    third = np.concatenate(tables)[:, 6]
    assert {min(int(block), 0) for block in third} == {-3, -2, -1, 0}  # crosses, factors, pairs, triples
    assert sum("case_0_head" in a for a in kept) == 6
    assert any("rows_1_0" in contents(path) for path in MARGINS)  # a relaxation, not linear bounds alone


def _region(arrays: dict[str, Any]) -> str:
    if "lo" in arrays:
        return "box"
    if "center" in arrays:
        return "clipped ball" if "clip" in arrays else "ball"
    return "everywhere"
