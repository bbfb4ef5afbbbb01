"""What every result shows: a short table for people and notebooks, plain values for machines, a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lipcert import (
    Box,
    InputError,
    Polynomial,
    bound,
    bound_union,
    certify,
    contraction,
    jacobian,
    largest_box,
    minimize,
    partition,
    verify,
    verify_folder,
    verify_union,
)
from tests.lift_tools import deep_net

NET = deep_net(2, 4, 3, seed=0)
BOX = Box(np.zeros(2), 0.5)


def _bound() -> Any:
    return bound(NET, BOX, output=0, method="linear", work=0.1)


def _union() -> Any:
    return bound_union(NET, [BOX, Box(np.ones(2), 0.1)], output=0, method="linear", work=0.1)


def _polynomial() -> Any:
    x = Polynomial.variable(0)
    return minimize(x * x - x, [1 - x * x], order=1)


def _certification() -> Any:
    inputs = np.random.default_rng(0).normal(size=(3, 2))
    return certify(NET, inputs, np.array([0, 1, 2]), radius=0.1, method="linear")


def _folder(tmp_path: Path) -> Any:
    inputs = np.random.default_rng(0).normal(size=(3, 2))
    labels = np.array([0, 1, 2])
    certify(NET, inputs, labels, radius=0.1, method="linear", out=str(tmp_path / "job"))
    return verify_folder(tmp_path / "job", NET, inputs, labels)


RESULTS: dict[str, Callable[[Path], Any]] = {
    "bound": lambda _: _bound(),
    "union": lambda _: _union(),
    "certify": lambda _: _certification(),
    "cells": lambda _: partition(NET, BOX, cells=2, output=0),
    "polynomial": lambda _: _polynomial(),
    "verify": lambda _: verify(_bound().certificate, NET),
    "verify cells": lambda _: partition(NET, BOX, cells=2, output=0).certificate.verify(NET),
    "verify union": lambda _: verify_union(_union().certificate, NET),
    "verify folder": _folder,
    "largest box": lambda _: largest_box(NET, np.zeros(2), 1.0, output=0, most=1.0, accuracy=0.5, time_limit=2.0),
    "no box": lambda _: largest_box(NET, np.zeros(2), 1e-6, output=0, most=1.0, accuracy=0.5, time_limit=1.0),
    "loop": lambda _: contraction(deep_net(2, 3, 1, seed=0), 0.5 * np.eye(2), np.ones((2, 1)), BOX, method="linear"),
}


@pytest.mark.parametrize("make", RESULTS.values(), ids=RESULTS)
def test_a_result_is_shown_and_saved(make: Callable[[Path], Any], tmp_path: Path) -> None:
    found = make(tmp_path)
    text = repr(found)
    lines = text.split("\n")
    assert 3 <= len(lines) <= 20
    assert all(line.startswith("  ") for line in lines[1:])
    assert "array(" not in text
    page = found._repr_html_()
    assert "<table" in page
    assert all("<th" in page for _ in lines)
    value = found.to_dict()
    assert json.loads(json.dumps(value, allow_nan=False)) == json.loads(json.dumps(value))
    target = tmp_path / "kept" if "per_radius" in value else tmp_path / "kept.json"
    if target.suffix == "":
        target.mkdir()
    found.save(target)
    kept = json.loads((target / "result.json" if target.is_dir() else target).read_text())
    assert kept == json.loads(json.dumps(value))
    if target.suffix:
        with pytest.raises(InputError, match=r"kept\.txt"):
            found.save(tmp_path / "kept.txt")
        assert not (tmp_path / "kept.txt").exists()


def test_what_is_not_proved_is_null() -> None:
    answer = verify(_bound().certificate, deep_net(2, 4, 3, seed=1))
    assert answer.to_dict()["upper"] is None
    assert "not proved" in repr(answer)
    assert "another network" in repr(answer)
    assert "not proved" in repr(verify_union(_union().certificate, deep_net(2, 4, 3, seed=1)))


def test_a_certificate_is_one_short_line(tmp_path: Path) -> None:
    """It holds arrays that nobody reads in a shell; and it has a file that `verify` reads, or none."""
    made = (
        _bound,
        _union,
        _polynomial,
        lambda: jacobian(NET, BOX, work=0.1),
        lambda: partition(NET, BOX, cells=2, output=0),
    )
    for make in made:
        certificate = make().certificate
        assert repr(certificate).startswith(f"{type(certificate).__name__}(")
        assert "\n" not in repr(certificate)
        assert len(repr(certificate)) < 100
        with pytest.raises(InputError, match=r"a certificate is saved as \.npz"):
            certificate.save(tmp_path / "proof.txt")
    assert not [*tmp_path.iterdir()]
