"""`lipcert verify --exact`: both checks must prove the claim."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import lipcert
from lipcert import Box
from lipcert.cli.app import run
from tests.problems import net_of

pytest.importorskip("flint", reason="python-flint is not here: pip install 'lipcert[exact]'")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    net = net_of(3, 5, 1)
    net.save(tmp_path / "net.npz")
    for method in ("hr2", "backward", "interval"):
        result = lipcert.bound(net, Box(np.zeros(3), 0.3), method=method, work=1.0, lower=False)
        result.certificate.save(tmp_path / f"{method}.npz")
    return tmp_path


@pytest.mark.parametrize("method", ["hr2", "backward"])
def test_proved_by_both(folder: Path, method: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["verify", str(folder / f"{method}.npz"), "--network", str(folder / "net.npz"), "--json"]
    assert run(arguments) == 0
    plain = json.loads(capsys.readouterr().out)
    assert run([*arguments, "--exact"]) == 0
    both = json.loads(capsys.readouterr().out)
    assert both["proved"] is True
    assert plain["upper"] <= both["upper"] <= both["claim"]


def test_what_it_does_not_cover(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["verify", str(folder / "interval.npz"), "--network", str(folder / "net.npz"), "--exact"]
    assert run(arguments) == 2
    assert "the exact check is for proofs by one relaxation" in capsys.readouterr().err


def test_a_lowered_claim_is_not_proved(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with np.load(folder / "hr2.npz") as file:
        arrays = dict(file)
    arrays["upper"] = 0.9 * arrays["upper"]
    np.savez(folder / "low.npz", **arrays)
    assert run(["verify", str(folder / "low.npz"), "--network", str(folder / "net.npz"), "--exact"]) == 1
    assert "not proved" in capsys.readouterr().out
