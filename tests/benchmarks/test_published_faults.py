"""The fault of the published HR-1 for two hidden layers, on a network that takes a second."""

from __future__ import annotations

import pytest
from benchmarks._two_layer_program import two_layer_value
from benchmarks.results._published import HR1_GLOBAL

from lipcert.paper.entries import paper_network, paper_region, paper_samples
from lipcert.problem.problem import Problem
from lipcert.problem.region import Everywhere
from lipcert.witness import sample_points


def test_published_value_is_that_of_nonnegative_directions_and_no_bound() -> None:
    net, box = paper_network(5, 4, 7, 2), paper_region(5, 7, "global")
    published = HR1_GLOBAL[5, 4][7]
    assert two_layer_value(net, box, positive=True) == pytest.approx(published, abs=1e-5)
    sampled = sample_points(Problem.of(net, Everywhere()), paper_samples(5, 7, 2)).value  # the paper's own points
    assert published < sampled < two_layer_value(net, box, positive=False)
