"""Policy: every constant that decides how work is divided, when a method is worth trying, and how fast things go.

Each says what it was measured on. None of them can make a bound wrong: they only decide which bounds are looked for.
Constants of numerical methods (tolerances, step lengths) and limits of file formats stay with their modules.
"""

from __future__ import annotations

# --- Rates: operations of one nominal second, by kind of work -------------------------------------------------------
# The scale of `--work`; measured once on two cores of a server of 2021, one BLAS thread unless said otherwise.
DENSE = "dense"  # factorisations and products of large matrices
THIN = "thin"  # products of a large matrix with few columns, batches of points through a network
SCALAR = "scalar"  # Python statements around small arrays: one operation is one call
RATES = {DENSE: 5e10, THIN: 5e9, SCALAR: 1e5}

# --- Bounds ----------------------------------------------------------------------------------------------------------
BOUNDS_STEP = 0.25  # nominal seconds between two looks at the budget; a limit of 8 s was kept on 45,056 neurons

# --- Pace: how the speed of this machine, now, is learnt -------------------------------------------------------------
PACE_MEMORY = 4.0  # nominal seconds after which a measurement has faded by half
PACE_LEAST = 0.02  # real seconds below which a measurement says nothing
