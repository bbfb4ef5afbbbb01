"""Certificates of a Jacobian: what is forged proves nothing, what is damaged is refused in one line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lipcert import Ball, Box, Everywhere, FileFormatError, Jacobian, Network, jacobian
from lipcert.bounds.interval import Interval
from lipcert.cli.app import run
from lipcert.proof import jacobian as proofs
from lipcert.proof.cells import Cells, halves
from lipcert.proof.file import load_certificate
from lipcert.proof.jacobian import JacobianCertificate
from lipcert.proof.tree import MOST_DEPTH, Tree
from tests.forging import wordless
from tests.problems import net_of
from tests.reader_tools import survive

Arrays = dict[str, NDArray[Any]]


@cache
def proved() -> tuple[Network, Jacobian]:
    """A network, and its Jacobian with splits of both kinds."""
    net = net_of(2, 9, 7, 2, seed=3)
    found = jacobian(net, Box([0.1, -0.2], 1.0), gap=1e-3, work=0.5)
    where = found.splits.where
    assert np.any((where >= 0) & (where < 2))
    assert np.any(where >= 2)
    return net, found


def changed(name: str, change: Callable[[NDArray[Any]], Any]) -> Callable[[Arrays], None]:
    def forge(arrays: Arrays) -> None:
        arrays[name] = np.asarray(change(arrays[name]))

    return forge


def at(value: NDArray[Any], place: tuple[int, ...], change: Callable[[Any], Any]) -> NDArray[Any]:
    """A copy with one number changed."""
    copy = value.copy()
    copy[place] = change(copy[place])
    return copy


def _first_split(change: Callable[[float], float]) -> Callable[[Arrays], None]:
    return changed("values", lambda v: at(v, (0,), change))


def _leaf_that_is_split(arrays: Arrays) -> None:
    splits = arrays["splits"].copy()
    splits[np.flatnonzero(splits >= 0)[-1]] = -1
    arrays["splits"], arrays["values"] = splits, arrays["values"][1:]


def _no_splits(arrays: Arrays) -> None:
    arrays["splits"], arrays["values"] = np.array([-1]), np.zeros(0)


def _one_split_outside(arrays: Arrays) -> None:
    arrays["splits"], arrays["values"] = np.array([0, -1, -1]), np.array([7.0])


def _one_split_at_the_end(arrays: Arrays) -> None:
    arrays["splits"], arrays["values"] = np.array([0, -1, -1]), arrays["hi"][:1]


def _in_a_ball(arrays: Arrays) -> None:
    del arrays["lo"], arrays["hi"]
    arrays |= {"center": np.array([0.1, -0.2]), "radius": np.array(2.0)}


def _everywhere(arrays: Arrays) -> None:
    del arrays["lo"], arrays["hi"]


FORGED: dict[str, tuple[Callable[[Arrays], None], str]] = {
    "a raised lower end": (
        changed("lower", lambda v: at(v, (0, 1), lambda x: x + 0.01)),
        "1 of 4 entries: the claimed",
    ),
    "a lowered upper end": (
        changed("upper", lambda v: at(v, (1, 0), lambda x: x - 0.01)),
        "1 of 4 entries: the claimed",
    ),
    "an infinite end": (changed("upper", lambda v: at(v, (1, 0), lambda _: np.inf)), "1 of 4 entries: the claimed"),
    "all upper ends lowered": (changed("upper", lambda v: v - 10.0), "4 of 4 entries"),
    "more seen": (changed("seen_most", lambda v: at(v, (0, 0), lambda x: x + 0.01)), "1 of 4 entries: the claimed val"),
    "less seen": (changed("seen_least", lambda v: at(v, (0, 0), lambda x: x - 0.01)), "claimed values are not seen"),
    "seen nowhere": (changed("most_at", lambda v: at(v, (0, 0), lambda _: -1)), "claimed values are not seen"),
    "seen elsewhere": (lambda a: a.update(most_at=a["least_at"]), "claimed values are not seen"),
    "points outside": (changed("points", lambda v: v + 3.0), "not in the region"),
    "a larger region": (changed("hi", lambda v: v + 5.0), "entries: the claimed"),
    "another region": (changed("lo", lambda v: v - 2.0), "entries: the claimed"),
    "a ball": (_in_a_ball, "the region is no box"),
    "the whole space": (_everywhere, "the region is no box"),
    "no splits": (_no_splits, "entries: the claimed"),
    "a split at the end of its cell": (_one_split_at_the_end, "not inside its cell"),
    "a split outside": (_first_split(lambda v: v + 10.0), "not inside its cell"),
    "one split outside": (_one_split_outside, "not inside its cell"),
    "a split left out": (_leaf_that_is_split, "do not fit together"),
    "a split of nothing": (changed("splits", lambda s: np.where(s >= 0, 200, s)), "does not have"),
    "splits before their cells": (lambda a: a.update(splits=a["splits"][::-1], values=a["values"]), "do not fit"),
    "the same sign twice": (changed("splits", lambda s: np.where(s >= 2, 2, s)), "not inside its cell"),
    "another network": (changed("network", lambda _: np.array("0" * 64)), "another network"),
    "other scores": (changed("scores", lambda s: s[::-1]), "entries: the claimed"),
    "scores that there are not": (changed("scores", lambda s: s + 1), "does not have"),
    "inputs that there are not": (changed("inputs", lambda s: s + 9), "does not have"),
    "a score twice": (changed("scores", lambda s: s * 0), "twice"),
    "an input twice": (changed("inputs", lambda s: s * 0), "twice"),
    "points that no entry names": (changed("points", lambda p: np.tile(p[:1], (9, 1))), "more points"),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_files_prove_nothing(name: str, tmp_path: Path) -> None:
    net, found = proved()
    forge, words = FORGED[name]
    arrays = wordless(found.certificate.arrays())
    forge(arrays)
    np.savez(tmp_path / "forged.npz", allow_pickle=False, **arrays)
    answer = load_certificate(tmp_path / "forged.npz", JacobianCertificate).verify(net)
    assert not answer.proved
    assert answer.failed
    assert words in answer.reason


def chain(levels: int, region: Box) -> Tree:
    """Ever smaller cells at the upper end of the first coordinate: every level has one cell that is split."""
    where = np.array([0, *[-1, 0] * (levels - 1), -1, -1])
    value = np.zeros(len(where))
    value[where == 0] = np.linspace(region.lo[0], region.hi[0], levels + 2)[1:-1]
    return Tree(where, value)


def test_splits_inside_each_other_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each level is bounded by itself: a small file could ask for millions of them."""
    net, region = net_of(2, 3, 1), Box(np.zeros(2), 1.0)
    assert chain(MOST_DEPTH, region).fault(net, region) is None
    assert f"more than {MOST_DEPTH:,} times" in str(chain(MOST_DEPTH + 1, region).fault(net, region))
    found = jacobian(net, region, gap=0.1, work=0.01).certificate
    deep = replace(found, splits=chain(40, region))
    answer = deep.verify(net)
    assert np.all(np.isfinite(answer.found.hi))

    def counted(*_: Any) -> None:
        raise AssertionError("cells were bounded")

    monkeypatch.setattr("lipcert.proof.tree.MOST_DEPTH", 39)
    monkeypatch.setattr("lipcert.proof.jacobian.enclosure", counted)
    refused = deep.verify(net)
    assert not refused.proved
    assert "more than 39 times" in refused.reason


def wide_chain(levels: int, wide: int, region: Box) -> Tree:
    """Every level has twice as many cells as `wide`, and those at its end are split: the others wait."""
    where, value, cells = list[int](), list[float](), [(float(region.lo[0]), float(region.hi[0]))]
    for _ in range(levels):
        kept = cells[-wide:]
        where += [-1] * (len(cells) - len(kept)) + [0] * len(kept)
        cuts = [lo + 0.005 * (hi - lo) for lo, hi in kept]
        value += [0.0] * (len(cells) - len(kept)) + cuts
        cells = [half for (lo, hi), v in zip(kept, cuts, strict=True) for half in ((lo, v), (v, hi))]
    return Tree(np.array(where + [-1] * len(cells)), np.array(value + [0.0] * len(cells)))


def test_cells_that_wait_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """However a tree is made, its cells are checked in little memory."""
    net, region = net_of(2, 3, 1), Box(np.zeros(2), 1.0)
    asked = proofs.EntryQuestion(net, region, np.arange(1), np.arange(2))
    monkeypatch.setattr("lipcert.proof.cells._NUMBERS", 16 * 3)
    assert asked.batch == 16
    waiting, most = 1, 0
    bounded = proofs.bounded

    def taken(asked: Any, cells: Any, *rest: Any) -> Any:
        nonlocal waiting
        waiting -= len(cells)
        return bounded(asked, cells, *rest)

    def made(cells: Any, *rest: Any) -> Any:
        nonlocal waiting, most
        waiting += 2 * len(cells)
        most = max(most, waiting)
        return halves(cells, *rest)

    splits = wide_chain(150, 18, region)
    assert splits.fault(net, region) is None
    anything = Interval(np.full((1, 2), -1e9), np.full((1, 2), 1e9))
    whole = proofs.enclosure(asked, splits, anything)
    monkeypatch.setattr(proofs, "bounded", taken)
    monkeypatch.setattr(proofs, "halves", made)
    again = proofs.enclosure(asked, splits, anything)
    assert whole is not None
    assert again is not None
    assert waiting == 0
    assert most < 32 * 18 + 2 * 150 < 18 * 150


@pytest.mark.parametrize("region", [Box(np.zeros(2), 0.5), Ball(np.zeros(2), 0.5, (-0.4, 0.4)), Everywhere()], ids=repr)
def test_true_files_are_proved(region: Any, tmp_path: Path) -> None:
    net = net_of(2, 9, 7, 2, seed=3)
    found = jacobian(net, region, gap=1e-3, work=0.1)
    found.certificate.save(tmp_path / "jacobian.npz")
    kept = load_certificate(tmp_path / "jacobian.npz", JacobianCertificate)
    answer = kept.verify(net)
    assert answer.proved, answer.reason
    assert kept.region == region
    assert np.all(kept.claims.lo <= found.lower)
    assert np.all(found.upper <= kept.claims.hi)
    assert kept.claims.hi == pytest.approx(found.upper, rel=1e-6)
    assert kept.seen.hi == pytest.approx(found.seen_most)


DAMAGED: dict[str, Callable[[Arrays], None]] = {
    "nan in claims": changed("lower", lambda v: v * np.nan),
    "nan in what was seen": changed("seen_most", lambda v: v * np.nan),
    "nan in points": changed("points", lambda v: v * np.nan),
    "nan in splits": changed("values", lambda v: v * np.nan),
    "values of no splits": changed("values", lambda v: v[:-1]),
    "a version to come": changed("certificate", lambda v: v + 1),
    "text for numbers": changed("lower", lambda _: np.array([["a"] * 2] * 2)),
    "a list of claims": changed("upper", lambda v: v[0]),
    "too few claims": changed("upper", lambda v: v[:1]),
    "no claims": lambda arrays: arrays.__delitem__("upper"),
    "no scores": lambda arrays: arrays.update(scores=np.zeros(0, dtype=np.int64)),
    "seen at no point": changed("most_at", lambda v: v + 1000),
    "parts of splits": changed("splits", lambda v: v + 0.5),
    "a region upside down": changed("lo", lambda v: v + 100.0),
    "one end of a region": lambda arrays: arrays.__delitem__("lo"),
    "two networks": changed("network", lambda v: np.array([str(v)] * 2)),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_files_are_refused(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net, found = proved()
    arrays = wordless(found.certificate.arrays())
    DAMAGED[name](arrays)
    place = tmp_path / "damaged.npz"
    np.savez(place, allow_pickle=False, **arrays)
    with pytest.raises(FileFormatError):
        load_certificate(place, JacobianCertificate)
    net.save(tmp_path / "net.npz")
    assert run(["verify", str(place), "--network", str(tmp_path / "net.npz")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_cut_and_flipped_files(tmp_path: Path) -> None:
    net = net_of(2, 4, 2, seed=1)
    found = jacobian(net, Box(np.zeros(2), 1.0), gap=0.1, work=0.01)
    found.certificate.save(tmp_path / "jacobian.npz")

    def read(path: Path) -> object:
        answer = load_certificate(path, JacobianCertificate).verify(net)
        inside = np.all(answer.claimed.lo <= answer.found.lo) and np.all(answer.found.hi <= answer.claimed.hi)
        assert inside or not answer.proved
        return answer

    survive(tmp_path / "damaged.npz", (tmp_path / "jacobian.npz").read_bytes(), cuts=10, flips=30, reader=read)


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net, found = proved()
    net.save(tmp_path / "net.npz")
    found.certificate.save(tmp_path / "jacobian.npz")
    command = ["verify", str(tmp_path / "jacobian.npz"), "--network", str(tmp_path / "net.npz")]
    assert run(command) == 0
    assert "which cover the region" in capsys.readouterr().out
    assert run([*command, "--json"]) == 0
    assert '"proved": true' in capsys.readouterr().out
    arrays = wordless(found.certificate.arrays()) | {"upper": found.upper - 1.0}
    np.savez(tmp_path / "jacobian.npz", allow_pickle=False, **arrays)
    assert run(command) == 1
    assert "not proved" in capsys.readouterr().out


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_both_halves_are_the_whole_cell(seed: int) -> None:
    """Whatever is split: every point of a cell is in one of its halves, with the sign that the half says."""
    rng = np.random.default_rng(seed)
    lo = rng.normal(size=(5, 3))
    cells = Cells(lo, lo + rng.uniform(0.1, 2.0, size=(5, 3)), np.zeros((5, 4), dtype=np.int8))
    where = rng.integers(0, 7, size=5)
    middle = cells.lo + rng.uniform(0.1, 0.9, size=(5, 3)) * (cells.hi - cells.lo)
    both = halves(cells, where, middle[np.arange(5), np.minimum(where, 2)])
    assert both is not None
    points = cells.lo + rng.uniform(size=(50, 5, 3)) * (cells.hi - cells.lo)
    signs = rng.choice([-1, 1], size=(50, 5, 4))
    inside = np.zeros((2, 50, 5), dtype=bool)
    for side in range(2):
        own = both.rows(np.arange(side, 10, 2))
        fits = (own.signs == 0) | (np.sign(own.signs) == signs)
        inside[side] = np.all((points >= own.lo) & (points <= own.hi), axis=2) & np.all(fits, axis=2)
    assert inside.any(axis=0).all()
