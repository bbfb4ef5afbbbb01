"""`lipcert verify --exact`: both checks must prove the claim, whatever kind of proof it is."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import lipcert
from lipcert import Box, Certificate
from lipcert.cli.app import run
from lipcert.errors import how_to_install
from lipcert.proof.balls import check
from lipcert.proof.margins import MarginProof, certificate_of, linear_margins
from tests.problems import net_of

METHODS = ("hr2", "interval", "linear", "slopes")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tmp_path, net = tmp_path_factory.mktemp("proofs"), net_of(3, 5, 1)
    net.save(tmp_path / "net.npz")
    for method in METHODS:
        result = lipcert.bound(net, Box(np.zeros(3), 0.3), method=method, work=0.2, lower=False)
        result.certificate.save(tmp_path / f"{method}.npz")
    return tmp_path


def command(folder: Path, name: str) -> list[str]:
    return ["verify", str(folder / f"{name}.npz"), "--network", str(folder / "net.npz")]


def test_proved_by_both(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("flint", reason="python-flint is not here: pip install 'lipcert[exact]'")
    for method in METHODS:
        assert run([*command(folder, method), "--json"]) == 0
        plain = json.loads(capsys.readouterr().out)
        assert "exact" not in plain
        assert run([*command(folder, method), "--json", "--exact"]) == 0
        both = json.loads(capsys.readouterr().out)
        assert both["proved"] is True
        assert both["exact"]["upper"] <= both["claim"]
        assert both["exact"]["upper"] == pytest.approx(plain["upper"], rel=1e-5)
    assert run([*command(folder, "interval"), "--exact"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "in balls" in out
    assert "pre-activation bounds, interval bounds of the gradient" in out


def test_a_lowered_claim_is_not_proved(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("flint", reason="python-flint is not here: pip install 'lipcert[exact]'")
    with np.load(folder / "hr2.npz") as file:
        arrays = dict(file)
    arrays["upper"] = 0.9 * arrays["upper"]
    np.savez(folder / "low.npz", **arrays)
    assert run([*command(folder, "low"), "--exact"]) == 1
    assert "not proved" in capsys.readouterr().out


def test_what_the_balls_do_not_prove_is_not_proved(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("flint", reason="python-flint is not here: pip install 'lipcert[exact]'")
    for found, words in ((np.inf, "ball arithmetic proves no bound"), (1e9, "ball arithmetic proves 1e+09 only")):
        monkeypatch.setattr("lipcert.proof.balls.check_with_balls", lambda *_, found=found: found)
        assert run([*command(folder, "interval"), "--exact"]) == 1
        assert words in " ".join(capsys.readouterr().out.split())


def test_margins(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("flint", reason="python-flint is not here: pip install 'lipcert[exact]'")
    net, box, c = lipcert.load(folder / "net.npz"), Box(np.zeros(3), 0.3), np.ones(1)
    proof = MarginProof(c, float(linear_margins(net, box, c[None])[1][0]))
    (folder / "margins.npz").write_bytes(certificate_of(net, box, (proof,)).to_bytes())
    assert run([*command(folder, "margins"), "--exact"]) == 0
    assert "also in balls" in " ".join(capsys.readouterr().out.split())
    monkeypatch.setattr("lipcert.proof.balls.margins_with_balls", lambda *_: [np.inf])
    assert run([*command(folder, "margins"), "--exact", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["proved"] is False


def test_too_large(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("flint", reason="python-flint is not here: pip install 'lipcert[exact]'")
    monkeypatch.setattr(check, "MOST_WORK", 100.0)
    assert run([*command(folder, "linear"), "--exact"]) == 2
    error = capsys.readouterr().err.strip()
    assert "too large for the exact check" in error
    assert "\n" not in error


def test_without_flint(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, before anything is computed."""

    monkeypatch.setattr(Certificate, "check", None)
    monkeypatch.setitem(sys.modules, "flint", None)
    assert run([*command(folder, "hr2"), "--exact"]) == 2
    error = capsys.readouterr().err.strip()
    assert how_to_install("exact") in error
    assert "\n" not in error
