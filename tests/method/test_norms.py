"""layer_norms and `lipcert norms`: every layer's norms are above the true ones, and their product is the method's."""

from __future__ import annotations

import csv
import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

import lipcert
from lipcert.cli.app import run
from lipcert.errors import InputError
from lipcert.problem.maps import dense
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.problem.problem import Problem
from lipcert.problem.region import Everywhere
from lipcert.proof.arithmetic import prove_product
from tests.strategies import convolutional_networks


@settings(max_examples=25)
@given(convolutional_networks())
def test_norms_are_those_of_the_matrices_and_the_product_is_that_of_the_method(nets: tuple[Network, Network]) -> None:
    found = lipcert.layer_norms(nets[0])
    weights = [weight for block in nets[0].blocks for _, weight in block.terms]
    for row, weight in zip(found.layers, weights, strict=True):
        for norm, order in ((row.norm_2, 2), (row.norm_inf, np.inf), (row.norm_1, 1)):
            true = float(np.linalg.norm(dense(weight), order))
            assert true <= norm <= 1.00001 * true + 1e-12
        assert (row.outputs, row.inputs) == weight.shape
        assert row.seconds >= 0
    for p, product in (("2", found.product_2), ("inf", found.product_inf), ("1", found.product_1)):
        assert product == prove_product(Problem.of(nets[0], Everywhere(), "all", Norm(p, p))).upper


def test_ways_that_meet_are_added() -> None:
    eye, relu = np.eye(2), lipcert.Activation("relu")
    block = type(Network.from_weights([eye]).blocks[0])
    net = Network.from_blocks(
        [block(((0, 3 * eye),), np.zeros(2), relu), block(((0, eye), (1, 2 * eye)), np.zeros(2), relu),
         block(((2, eye),), np.zeros(2))]
    )  # fmt: skip
    found = lipcert.layer_norms(net)
    assert [(row.layer, row.source) for row in found.layers] == [(1, 0), (2, 0), (2, 1), (3, 2)]
    assert found.product_2 == pytest.approx(7.0, rel=1e-5)
    assert "2 of 0" in repr(found)


def test_a_command_prints_and_writes_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    Network.from_weights([rng.normal(size=(4, 3)), rng.normal(size=(2, 4))]).save("net.npz")
    assert run(["norms", "net.npz", "--json", "--out", "norms.csv"]) == 0
    shown = json.loads(capsys.readouterr().out)
    with open("norms.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert [float(row["norm_2"]) for row in table] == [row["norm_2"] for row in shown["layers"]]
    assert run(["norms", "net.npz", "--out", "norms.npz"]) == 0
    assert "product" in capsys.readouterr().out
    assert np.load("norms.npz")["product_2"] == shown["product_2"]
    assert run(["norms", "net.npz", "--out", "norms.json"]) == 0
    assert run(["norms", "net.npz", "--out", "norms.json"]) == 0
    capsys.readouterr()
    for command in (
        ["norms", "none.onnx"],
        ["norms", "net.npz", "--out", "net.npz"],
        ["norms", "net.npz", "--out", "x.txt"],
    ):
        assert run(command) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_weights_that_overflow_have_no_norm() -> None:
    found = lipcert.layer_norms(Network.from_weights([np.full((3, 3), 1e300), np.full((2, 3), 1e300)]))
    assert found.product_2 == np.inf
    assert found.to_dict()["product_2"] is None
    assert "inf" in repr(found)


def test_a_frame_needs_pandas() -> None:
    found = lipcert.layer_norms(Network.from_weights([np.eye(2)]))
    if importlib.util.find_spec("pandas") is None:
        with pytest.raises(InputError, match="pip install pandas"):
            found.to_frame()
    else:
        assert list(found.to_frame()["norm_2"]) == [found.layers[0].norm_2]
