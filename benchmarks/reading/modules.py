"""The list of torch modules that people have, by kinds: what `torch` and `from_torch` of this benchmark read."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.reading._activations import activation_cases
from benchmarks.reading._blocks import block_cases
from benchmarks.reading._case import Case
from benchmarks.reading._convolutions import convolution_cases
from benchmarks.reading._forwards import forward_cases
from benchmarks.reading._layers import layer_cases
from benchmarks.reading._refusals import refusal_cases


def cases(only: str = "") -> Iterator[Case]:
    """All modules, or those whose name or kind holds `only`."""
    for part in (layer_cases, convolution_cases, block_cases, forward_cases, activation_cases, refusal_cases):
        for case in part():
            if only in case.name or only in case.kind:
                yield case
