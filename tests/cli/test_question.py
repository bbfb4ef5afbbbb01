"""The question as a user types it."""

from __future__ import annotations

import numpy as np
import pytest

from lipcert.cli.question import QuestionOptions
from lipcert.errors import InputError
from lipcert.problem.region import Box


def test_radius_and_center_are_typed_as_quotients() -> None:
    region, _ = QuestionOptions(center="1/2,0", radius="8/255").region(2)
    assert isinstance(region, Box)
    assert np.array_equal(region.center, [0.5, 0.0])
    assert np.array_equal(region.radius, [8 / 255, 8 / 255])


@pytest.mark.parametrize("radius", ["8/0", "8/", "-8/255", "8/255/2"])
def test_a_radius_that_is_no_number_is_refused_by_name(radius: str) -> None:
    with pytest.raises(InputError, match=f"--radius {radius}"):
        QuestionOptions(radius=radius).check("--radius R")
