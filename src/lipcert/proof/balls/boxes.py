"""The box around a region with half-spaces, proved in balls from the multipliers that it was made with."""

from __future__ import annotations

import numpy as np

from lipcert.problem.region import Ball, Region, sides_of
from lipcert.proof.balls.forms import Forms
from lipcert.proof.balls.numbers import above, balls, product


def box_is_proved(region: Region) -> bool:
    """Whether no point of the region is outside of its box."""
    cut = sides_of(region)
    if cut is None or cut.multipliers is None:
        return True
    base, n = cut.base, cut.size
    around = base.box if isinstance(base, Ball) else base
    own, before = (np.concatenate([box.hi, -box.lo]) for box in (cut.box, around))
    used = np.flatnonzero(own < before)
    y, signs = balls(cut.multipliers[used]), np.concatenate([np.eye(n), -np.eye(n)])[used]
    forms = Forms(balls(signs) - product(y, balls(cut.A)), product(y, balls(cut.b)))
    return bool(np.all(above(forms.largest(base)) <= own[used]))
