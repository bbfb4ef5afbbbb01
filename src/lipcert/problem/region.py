"""Regions of inputs: a box, a Euclidean ball, one of them cut by half-spaces, or everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lipcert.errors import InputError
from lipcert.problem.ball import Ball
from lipcert.problem.box import Box
from lipcert.problem.polytope import Polytope
from lipcert.rounding import Array

__all__ = [
    "Ball",
    "Box",
    "Everywhere",
    "Polytope",
    "Region",
    "ball_of",
    "check_region",
    "hull",
    "restricted",
    "sides_of",
]


@dataclass(frozen=True)
class Everywhere:
    """The whole input space."""

    words = "the whole input space"

    def contains(self, points: Array) -> bool:
        """Whether all coordinates are finite."""
        return bool(np.all(np.isfinite(points)))

    def project(self, points: Array) -> Array:
        """The points themselves."""
        return points

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"type": "everywhere"}


Region = Box | Ball | Polytope | Everywhere


def hull(region: Region) -> Box | None:
    """A small box around a region, None when there is none."""
    if isinstance(region, Ball | Polytope):
        return region.box
    return region if isinstance(region, Box) else None


def ball_of(region: Region) -> Ball | None:
    """The ball that the region is, or is a part of; None when it is none."""
    base = region.base if isinstance(region, Polytope) else region
    return base if isinstance(base, Ball) else None


def sides_of(region: Region) -> Polytope | None:
    """The region where it has half-spaces."""
    return region if isinstance(region, Polytope) else None


def restricted(region: Region, box: Box) -> Box | Polytope:
    """The part of a box, or of a box cut by half-spaces, that lies in a smaller box."""
    return region.within(box) if isinstance(region, Polytope) else box


def check_region(region: object, inputs: int) -> None:
    """Refuse what is no region, and a region of another dimension than the network's input."""
    if not isinstance(region, Box | Ball | Polytope | Everywhere):
        number = isinstance(region, (int, float, np.number)) and not isinstance(region, bool)
        shown = f"{region}" if number else f"{type(region).__name__}"
        hint = f"; for a box around zero use Box(numpy.zeros({inputs}), {shown})" if number else ""
        kinds = "Box(center, radius), Ball(center, radius), Polytope(box, A, b) or Everywhere()"
        raise InputError(f"region={shown}: a region is {kinds}{hint}")
    if not isinstance(region, Everywhere) and region.size != inputs:
        raise InputError(
            f"the center has {region.size} coordinates, the network has {inputs} inputs{_of_a_batch(region, inputs)}"
        )


def _of_a_batch(region: Box | Ball | Polytope, inputs: int) -> str:
    """Advice where the center is several inputs."""
    shape = region.shape
    return f"; it is a batch of {shape[0]}: give one of them, center[i]" if region.size == shape[0] * inputs else ""
