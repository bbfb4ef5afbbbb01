"""Certificates of all cells: what is forged proves nothing, what is damaged is refused in one line."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lipcert import Box, FileFormatError, InputError, Network, partition
from lipcert.cli.app import run
from lipcert.proof.file import load_certificate
from lipcert.proof.partition import PartitionCertificate
from lipcert.search.cells.result import Partition
from tests.forging import wordless
from tests.problems import net_of
from tests.reader_tools import survive

Arrays = dict[str, NDArray[Any]]


@cache
def proved() -> tuple[Network, Partition, Partition]:
    """A network, a grid with splits inside its cells, and an adaptive partition with weights."""
    net, box = net_of(2, 6, 5, 2, seed=3), Box([0.1, -0.2], 1.0)
    grid = partition(net, box, cells=(3, 4), gap=0.05, output=0)
    assert grid.splits > 0
    return net, grid, partition(net, box, gap=0.2, output="all", norm="2", input_weights=[2.0, 1.0])


def changed(name: str, change: Callable[[NDArray[Any]], Any]) -> Callable[[Arrays], None]:
    def forge(arrays: Arrays) -> None:
        arrays[name] = np.asarray(change(arrays[name]))

    return forge


def _one_cell_less(arrays: Arrays) -> None:
    """The grid without the first cells along the last coordinate; claims and splits fit."""
    arrays["edges"] = np.delete(arrays["edges"], 4)  # the first edge of coordinate 1
    arrays["edge_counts"] = arrays["edge_counts"] - [0, 1]
    arrays["splits"], arrays["values"] = np.full(9, -1), np.zeros(0)
    arrays["claims"] = np.full(9, 1e3)


def _first_split(change: Callable[[float], float]) -> Callable[[Arrays], None]:
    def forge(arrays: Arrays) -> None:
        values = arrays["values"].copy()
        values[0] = change(values[0])
        arrays["values"] = values

    return forge


def _leaf_that_is_split(arrays: Arrays) -> None:
    splits = arrays["splits"].copy()
    splits[np.flatnonzero(splits >= 0)[0]] = -1
    arrays["splits"], arrays["values"] = splits, arrays["values"][1:]


def _dropped(values: NDArray[Any]) -> NDArray[Any]:
    return values[:-1]


FORGED: dict[str, tuple[Callable[[Arrays], None], str]] = {
    "a missing cell": (_one_cell_less, "do not reach from end to end"),
    "shifted edges": (changed("edges", lambda e: e + np.r_[0.0, 0.01, np.zeros(len(e) - 2)] * 200), "do not increase"),
    "edges that start later": (changed("edges", lambda e: e + np.r_[0.01, np.zeros(len(e) - 1)]), "end to end"),
    "edges that end earlier": (changed("edges", lambda e: e - np.r_[np.zeros(len(e) - 1), 0.01]), "end to end"),
    "a larger region": (changed("hi", lambda h: h + 0.5), "end to end"),
    "a lowered claim": (changed("claims", lambda c: np.r_[c[:5], 0.99 * c[5], c[6:]]), "1 of 12 cells"),
    "all claims lowered": (changed("claims", lambda c: 0 * c), "12 of 12 cells"),
    "an infinite claim": (changed("claims", lambda c: np.r_[np.inf, c[1:]]), "1 of 12 cells"),
    "a claim less": (changed("claims", _dropped), "not one claim for every cell"),
    "claims of leaves": (changed("of_grid", lambda f: 0 * f), "not one claim for every cell"),
    "a split outside": (_first_split(lambda v: v + 10.0), "not inside its cell"),
    "a split at an edge": (_first_split(lambda _: -0.9), "not inside its cell"),
    "a split of no coordinate": (changed("splits", lambda s: np.where(s >= 0, 7, s)), "coordinate that there is not"),
    "splits left out": (_leaf_that_is_split, "do not fit together"),
    "another network": (changed("network", lambda _: np.array("0" * 64)), "another network"),
    "another output": (changed("c", lambda _: np.array([0.0, 50.0])), "cells: the claim"),
    "more scores": (changed("c", lambda _: np.ones(3)), "about 3 scores, not 2"),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_files_prove_nothing(name: str, tmp_path: Path) -> None:
    net, grid, _ = proved()
    forge, words = FORGED[name]
    arrays = wordless(grid.certificate.arrays())
    forge(arrays)
    np.savez(tmp_path / "forged.npz", allow_pickle=False, **arrays)
    answer = load_certificate(tmp_path / "forged.npz", PartitionCertificate).verify(net)
    assert not answer.proved
    assert words in answer.reason


def test_true_files_are_proved(tmp_path: Path) -> None:
    net, grid, weighted = proved()
    for found in (grid, weighted):
        found.certificate.save(tmp_path / "cells.npz")
        answer = load_certificate(tmp_path / "cells.npz", PartitionCertificate).verify(net)
        assert answer.proved, answer.reason
        assert answer.found.hi == pytest.approx(found.upper, rel=1e-9)


def test_forged_weights(tmp_path: Path) -> None:
    net, _, weighted = proved()
    for name, factor in (("input_scale", 0.5), ("input_weights", 0.25)):
        arrays = wordless(weighted.certificate.arrays())
        arrays[name] = arrays[name] * factor
        np.savez(tmp_path / "forged.npz", allow_pickle=False, **arrays)
        answer = load_certificate(tmp_path / "forged.npz", PartitionCertificate).verify(net)
        assert not answer.proved
        assert "weights" in answer.reason


DAMAGED: dict[str, Callable[[Arrays], None]] = {
    "nan in claims": changed("claims", lambda c: c * np.nan),
    "claims below zero": changed("claims", lambda c: -c),
    "nan in edges": changed("edges", lambda e: e * np.nan),
    "nan in splits": changed("values", lambda v: v * np.nan),
    "counts of no edges": changed("edge_counts", lambda n: n + 1),
    "huge counts": changed("edge_counts", lambda n: n * 2**40),
    "values of no splits": changed("values", _dropped),
    "a version to come": changed("certificate", lambda v: v + 1),
    "text for numbers": changed("claims", lambda c: np.array(["a"] * len(c))),
    "a matrix of claims": changed("claims", lambda c: c[None]),
    "an unknown flag": changed("of_grid", lambda f: f + 2),
    "no claims": lambda arrays: arrays.__delitem__("claims"),
    "a region upside down": changed("lo", lambda v: v + 100.0),
    "weights not finite": changed("c", lambda c: c + np.inf),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_files_are_refused(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net, grid, _ = proved()
    arrays = wordless(grid.certificate.arrays())
    DAMAGED[name](arrays)
    place = tmp_path / "damaged.npz"
    np.savez(place, allow_pickle=False, **arrays)
    with pytest.raises(FileFormatError):
        load_certificate(place, PartitionCertificate)
    net.save(tmp_path / "net.npz")
    assert run(["verify", str(place), "--network", str(tmp_path / "net.npz")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_cut_and_flipped_files(tmp_path: Path) -> None:
    net, grid, _ = proved()
    grid.certificate.save(tmp_path / "cells.npz")

    def read(path: Path) -> object:
        answer = load_certificate(path, PartitionCertificate).verify(net)
        wrong = answer.proved and not np.all(answer.claimed.hi >= answer.found.hi)
        assert not wrong
        return answer

    survive(tmp_path / "damaged.npz", (tmp_path / "cells.npz").read_bytes(), cuts=10, flips=30, reader=read)


def test_a_network_is_no_certificate(tmp_path: Path) -> None:
    net, _, _ = proved()
    net.save(tmp_path / "net.npz")
    with pytest.raises(InputError):
        load_certificate(tmp_path / "net.npz", PartitionCertificate)
