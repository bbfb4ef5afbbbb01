"""Every kind of certificate of a network is proved by both checkers, and forged ones by neither."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lipcert
from lipcert import Box, Network
from lipcert.bounds.interval import Interval
from lipcert.cli.app import run
from lipcert.proof.certificate import NetworkCertificate
from lipcert.proof.file import load_certificate, load_proof
from lipcert.proof.jacobian import JacobianCertificate
from lipcert.proof.partition import PartitionCertificate
from tests.conftest import ROOT
from tests.forging import wordless
from tests.problems import net_of

pytest.importorskip("flint", reason="python-flint is not here: pip install 'lipcert[exact]'")

OLD = ROOT / "tests" / "data" / "version-1.0.0"
CELLS = ("grid", "target", "norm-1", "tanh", "weights", "map")
JACOBIANS = ("ball", "box", "clip", "everywhere", "inputs", "outputs", "small")
FILES = [OLD / "cells" / f"{name}.npz" for name in CELLS] + [OLD / "jacobian" / f"{name}.npz" for name in JACOBIANS]
KINDS = ("bound", "cells", "jacobian", "margins", "union")
SMALL = {"bound": "linear", "cells": "target", "jacobian": "box", "margins": "", "union": ""}


def a_file(kind: str) -> Path:
    return sorted((OLD / kind).glob(f"{SMALL[kind]}*.npz"))[0]


def network_of(path: Path) -> Network:
    return lipcert.load(OLD / "networks" / f"{load_proof(path).network_sha256[:12]}.npz")


def exactly(certificate: Any, net: Network) -> bool:
    """Whether ball arithmetic alone proves the claims: the ordinary check is left out."""
    from lipcert.proof import balls

    assert isinstance(certificate, NetworkCertificate)
    return certificate.unproved(certificate.check_with_balls(net, balls), "ball arithmetic") is None


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_cells_and_jacobians_of_old_files_are_proved_in_balls(path: Path) -> None:
    answer = lipcert.verify(path, network_of(path), exact=True)
    assert answer.proved, answer.reason
    assert answer.exact is not None
    assert answer.exact.upper <= answer.claim
    assert dict(answer.rows())["in balls"].endswith(answer.exact.checked)
    assert answer.to_dict()["exact"]["upper"] == answer.exact.upper


@pytest.mark.parametrize("kind", KINDS)
def test_the_command_line_takes_every_kind(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = a_file(kind)
    sha256 = load_proof(path).network_sha256
    network = str(OLD / "networks" / f"{sha256[:12]}.npz")
    assert run(["verify", str(path), "--network", network, "--exact", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["proved"]
    assert answer["exact"]


@pytest.mark.parametrize("kind", KINDS)
def test_another_network_is_refused(kind: str) -> None:
    answer = load_proof(a_file(kind)).verify(net_of(2, 5, 2, seed=11), exact=True)
    assert not answer.proved
    assert answer.exact is None or not np.isfinite(answer.exact.upper)


@pytest.fixture(scope="module")
def cells() -> tuple[Network, PartitionCertificate]:
    net = net_of(2, 6, 5, 2, seed=3)
    return net, lipcert.partition(net, Box([0.1, -0.2], 1.0), cells=2, gap=0.3, output=0).certificate


@pytest.fixture(scope="module")
def entries() -> tuple[Network, JacobianCertificate]:
    net = net_of(2, 6, 5, 2, seed=3)
    return net, lipcert.jacobian(net, Box([0.1, -0.2], 0.4), gap=0.2, work=0.2).certificate


def forged(certificate: Any, folder: Path, **changes: Any) -> Any:
    arrays = wordless(certificate.arrays()) | changes
    np.savez(folder / "forged.npz", allow_pickle=False, **arrays)
    return load_certificate(folder / "forged.npz", type(certificate))


def test_forged_cells_are_not_proved_in_balls(cells: tuple[Network, PartitionCertificate], tmp_path: Path) -> None:
    net, honest = cells
    assert exactly(honest, net)
    low = honest.claims.copy()
    low[0] *= 0.9
    assert not exactly(forged(honest, tmp_path, claims=low), net)
    assert not exactly(forged(honest, tmp_path, hi=honest.region.hi + 0.1), net)
    assert not exactly(forged(honest, tmp_path, c=np.array([0.0, 100.0])), net)
    splits = np.array(honest.arrays()["splits"])
    other = np.where(splits >= 0, 1 - splits, splits)
    assert (splits >= 0).any()
    assert not exactly(forged(honest, tmp_path, splits=other, claims=0.9 * honest.claims), net)
    assert not exactly(honest, net_of(2, 6, 5, 2, seed=4))


def test_what_balls_prove_of_cells_is_true(cells: tuple[Network, PartitionCertificate]) -> None:
    """Against gradients at many points; and it is what the ordinary check proves, up to rounding."""
    from lipcert.proof import balls

    net, honest = cells
    uppers = balls.cells_with_balls(honest, net)
    lo, hi, roots = honest.cover.boxes()
    rng = np.random.default_rng(0)
    for k in range(len(lo)):
        points = lo[k] + (hi[k] - lo[k]) * rng.random((200, 2))
        seen = np.abs(net.gradient(points, honest.question.c)).sum(axis=1).max()
        assert uppers[roots[k] if honest.of_grid else k] >= seen * (1 - 1e-12)
    np.testing.assert_allclose(uppers, honest.check(net).bounds.hi, rtol=1e-9)


def test_forged_entries_are_not_proved_in_balls(entries: tuple[Network, JacobianCertificate], tmp_path: Path) -> None:
    net, honest = entries
    assert exactly(honest, net)
    low, high = honest.claims
    size = float(honest.claims.magnitude.max())
    for changes in (
        {"upper": np.minimum(high, high - 0.2 * (high - low) - 1e-3 * size)},
        {"lower": np.maximum(low, low + 0.2 * (high - low) + 1e-3 * size)},
        {"seen_most": np.array(honest.arrays()["seen_most"]) + 1e-3 * size},
        {"seen_least": np.array(honest.arrays()["seen_least"]) - 1e-3 * size},
        {"least_at": np.full(honest.at[0].shape, -1)},
        {"lo": honest.region.lo - 1.0},  # type: ignore[union-attr]
    ):
        assert not exactly(forged(honest, tmp_path, **changes), net), changes
    assert not exactly(honest, net_of(2, 6, 5, 2, seed=4))


def test_what_balls_prove_of_entries_is_true(entries: tuple[Network, JacobianCertificate]) -> None:
    from lipcert.proof import balls

    net, honest = entries
    found = balls.entries_with_balls(honest, net)
    box = honest.region
    assert isinstance(box, Box)
    points = box.lo + (box.hi - box.lo) * np.random.default_rng(0).random((2000, 2))
    J = np.stack([net.gradient(points, e) for e in np.eye(2)], axis=1)[:, honest.scores][:, :, honest.inputs]
    assert np.all(found.bounds.lo - 1e-12 <= J.min(axis=0))
    assert np.all(found.bounds.hi + 1e-12 >= J.max(axis=0))
    ordinary = honest.check(net).bounds
    np.testing.assert_allclose(Interval(*found.bounds), Interval(*ordinary), rtol=1e-8, atol=1e-12)
    assert found.unseen is not None
    assert not found.unseen.any()


@pytest.mark.parametrize("kind", ["cells", "jacobian"])
def test_what_is_too_large_is_said_at_once(
    kind: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lipcert.proof.balls.check.MOST_WORK", 100.0)
    path = a_file(kind)
    network = str(OLD / "networks" / f"{load_proof(path).network_sha256[:12]}.npz")
    assert run(["verify", str(path), "--network", network, "--exact"]) == 2
    assert "too large for the exact check" in capsys.readouterr().err
