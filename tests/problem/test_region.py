"""Boxes: rounded outward, clipped, frozen; clear refusals."""

from __future__ import annotations

import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lipcert import Box, Everywhere
from lipcert.errors import InputError


@given(st.floats(-1e6, 1e6), st.floats(0, 1e3))
def test_contains_the_real_box(center: float, radius: float) -> None:
    box = Box([center], radius)
    assert Fraction(float(box.lo[0])) <= Fraction(center) - Fraction(radius)
    assert Fraction(float(box.hi[0])) >= Fraction(center) + Fraction(radius)
    assert box.hi[0] - box.lo[0] <= 2 * radius + 1e-15 * (abs(center) + radius) * 4 + 1e-300


def test_clip_and_per_coordinate_radius() -> None:
    box = Box([0.0, 0.5, 1.0], [0.25, 0.0, 0.5], clip=(0, 1))
    assert box.lo.tolist() == [0.0, 0.5, 0.5]
    assert box.hi.tolist() == [0.25, 0.5, 1.0]
    assert box.contains(np.array([0.1, 0.5, 0.9]))
    assert not box.contains(np.array([0.1, 0.5, 1.1]))
    assert box.project(np.array([[-1.0, 2.0, 0.7]])).tolist() == [[0.0, 0.5, 0.7]]
    assert box.to_dict()["hi"] == [0.25, 0.5, 1.0]
    assert Box([1.0, 1.0], 0.5).to_dict() == {"type": "box", "lo": 0.5, "hi": 1.5, "radius": 0.5}
    assert "0.25" in repr(Box([0.0], 0.25))


def test_values() -> None:
    box = Box([1.0, 2.0], 0.5)
    same = Box.from_bounds([0.5, 1.5], [1.5, 2.5])
    assert box == same
    assert hash(box) == hash(same)
    assert pickle.loads(pickle.dumps(box)) == box
    assert box != Everywhere()
    with pytest.raises(AttributeError):
        box.lo = np.zeros(2)
    with pytest.raises(ValueError, match="read-only"):
        box.lo[0] = 3.0
    everywhere = Everywhere()
    assert everywhere.contains(np.ones(3))
    assert not everywhere.contains(np.array([np.inf]))
    assert everywhere.project(np.ones(3)).tolist() == [1, 1, 1]
    assert everywhere.to_dict() == {"type": "everywhere"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.0], -0.1), r"radius=-0.1.*>= 0"),
        (([0.0], np.nan), "finite"),
        (([0.0], np.inf), "finite"),
        (([np.nan], 0.1), "center"),
        (([], 0.1), "non-empty"),
        (([0.0, 1.0], [0.1, 0.1, 0.1]), "one radius"),
        ((["a"], 0.1), "numbers"),
        (([0.0], 0.1, (1, 0)), r"clip=\(1, 0\)\): .* low <= high"),
        (([0.0], 0.1, 1), r"Box\(clip=1\): clip needs two finite numbers"),
        (([0.0], 0.1, (0, 1, 2)), "clip needs two finite numbers"),
        (([0.0], 0.1, "01"), "clip must be numbers"),
        (([0.0], "0.1"), "radius must be numbers"),
        ((["0", "1"], 0.1), "center must be numbers"),
        (([0.0], None), "finite"),
        (([0.0], 0.1, (2, 3)), "no point within clip"),
        (([1e308], 1e308), "finite"),
    ],
)
def test_refused(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(InputError, match=message), np.errstate(all="ignore"):
        Box(*arguments)  # type: ignore[arg-type]


def test_from_bounds_refuses() -> None:
    with pytest.raises(InputError, match="lo > hi"):
        Box.from_bounds([1.0], [0.0])
    with pytest.raises(InputError, match="coordinates"):
        Box.from_bounds([1.0], [2.0, 3.0])
