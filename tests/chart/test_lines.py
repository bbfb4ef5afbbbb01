"""Line charts: what stands beside an axis is read as a person reads it, and no words leave their panel."""

from __future__ import annotations

import pytest

from lipcert.chart.lines import Look, Panel, Quartiles, Series, line_chart
from lipcert.chart.shapes import MOST_DECADES, Text, logarithmic

LOOKS = {"bound": Look("ink", "", "circle")}


def _panel(*values: float) -> Panel:
    points = tuple((float(k), Quartiles.one(value)) for k, value in enumerate(values, 1))
    return Panel("network", "seconds", "Lipschitz constant", (Series("bound", points),), log=True)


def test_a_long_logarithmic_axis_has_few_powers_of_ten_with_raised_exponents() -> None:
    labels = [label for _, label in logarithmic(0.01, 6e9, "bound").ticks]
    assert "10⁸" in labels
    assert "10⁻²" in labels
    assert len(labels) <= MOST_DECADES + 1


def test_an_axis_of_ordinary_numbers_has_ordinary_labels() -> None:
    assert [label for _, label in logarithmic(1.0, 40.0, "bound").ticks] == ["1", "2", "5", "10", "20", "50"]


@pytest.mark.parametrize("top", [3.0, 9e4, 6e9, 5e21])
def test_the_title_of_a_vertical_axis_stays_between_its_panel_and_the_numbers(top: float) -> None:
    panels = [_panel(0.5, top), _panel(0.5, top)]
    drawing = line_chart("brackets", panels, LOOKS)
    titles = [s for s in drawing.shapes if isinstance(s, Text) and s.turned]
    width = drawing.width / len(panels)
    assert len(titles) == len(panels)
    for k, title in enumerate(titles):
        numbers = [s for s in drawing.shapes if isinstance(s, Text) and s.anchor == "end" and s.x // width == k]
        leftmost = min(s.x - 7.8 * len(s.words) for s in numbers)
        assert k * width + 13 <= title.x <= leftmost
