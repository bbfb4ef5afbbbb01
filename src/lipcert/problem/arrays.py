"""Numbers as callers give them: lists, numpy arrays, or torch tensors, which are known by what they can do."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def array_of(value: Any) -> NDArray[Any]:
    """numpy's array of a value, of a tensor without its gradients; TypeError or ValueError where there is none."""
    detach = getattr(value, "detach", None)
    try:
        return np.asarray(value if detach is None else detach())
    except RuntimeError as error:  # torch, of tensors in a list
        raise TypeError(str(error)) from None


def floats_of(value: Any) -> NDArray[np.float64]:
    """numpy's array of a value as float64; text is refused, which numpy would read as numbers."""
    found = array_of(value)
    if found.dtype.kind not in "fiubO":
        raise TypeError(f"{found.dtype} is not a kind of real numbers")
    return np.asarray(found, dtype=np.float64)


def whole_of(value: Any) -> int | None:
    """One whole number, also as an array or a tensor without axes; None where it is something else."""
    if isinstance(value, bool | str):
        return None
    try:
        found = array_of(value)
    except (TypeError, ValueError):
        return None
    return int(found) if found.ndim == 0 and found.dtype.kind in "iu" else None
