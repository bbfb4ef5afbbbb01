"""Files and modules of every kind become tensors first, affine expressions of blocks, by one set of operations on them.

A reader is a table of names: an `Entry` says which operation a name stands for, and converts its arguments.

    tensors, terms      the graph, and what its expressions are made of
    linear, windows     products and sums; convolutions, pooling, padding, resizing
    places              rearrangements, of arrays and of the places of tensors
    arithmetic          sums, products, comparisons, maxima entry by entry
    activations         activations with parameters
    rewrites            maxima, clipping, sorting as sums of ReLUs
    recognised          products and choices that are activations written out
    products, norms     other products, quotients, softmax, norms and normalisations, by activations of one variable
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Entry:
    """A name in a table of operators: the function that reads it, and what docs/operators.md says of it.

    apply: None where the operator is refused; `words` say why.
    is_view: whether the result may share the memory of the argument, as some of torch do.
    """

    apply: Callable[..., Any] | None
    how: Literal["read", "rewritten", "left out", "refused"] = "read"
    words: str = ""
    is_view: bool = False


def refused(why: str) -> Entry:
    """An entry that only says why not."""
    return Entry(None, "refused", why)
