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

# --- Pace: how the speed of this machine, now, is learnt -------------------------------------------------------------
PACE_MEMORY = 4.0  # nominal seconds after which a measurement has faded by half
PACE_LEAST = 0.02  # real seconds below which a measurement says nothing

# --- Witness: the search for points with a large gradient ------------------------------------------------------------
# Shares, patience and counts were chosen on ERAN 3_50, ACAS Xu 1_1, a convolution of MNIST, and (80,80), (40,40,10) and
# SDP-NN of the paper with seed 0, and looked at with other seeds: PERFORMANCE.md, "Better lower bounds".
PASS_SECONDS = 0.1  # nominal, of one batch through the network: how late a search may notice that its budget is over
CHEAP_NETWORK = 20_000  # weights up to which climbs and walks are more patient
SAMPLING_SHARE = 0.4  # of the budget, at most
HUNTING_SHARE = 0.2  # of what is left then: patterns of one hidden layer
DRIFTING_SHARE = 0.3  # of what is left then, in every round
CLIMBING_SHARE = 0.4  # of what is left then, where a walk follows
CHASING_SHARE = 0.4  # of the budget for a moment matrix
BOUNDS_SHARE = 0.3  # of what is left, for pre-activation bounds that nobody has computed yet
DIRECTION_SHARE = 0.5  # of what is left, for the search along one direction of the outputs
DIRECTION_SAMPLING_SHARE = 0.2  # of the budget, for Jacobians at random points
ELITE = 16  # sampled points that a search starts from
TRIED = 4  # points of a batch that are recomputed in double precision
CLIMB_ROWS = 64  # points that climb together
CLIMB_STEPS = (100, 400, 800)  # of the first, second and later rounds
CLIMB_PATIENCE = 1  # full rounds without improvement; twice as many on cheap networks
DRIFT_INPUTS = 64  # with more of them random moves change little: nothing was found on ERAN with 784
DRIFT_MEMBERS = 64
DRIFT_TRIES = 64  # of every member in a turn
DRIFT_PATIENCE = 60  # turns without improvement
DRIFT_RENEWAL = 40  # turns after which the worst quarter starts again
HUNT_STARTS = 512  # random patterns
HUNT_POPULATION = 64  # patterns that are disturbed
HUNT_PATIENCE = 15  # disturbances without improvement
SETTLING = 60  # alternations at most
HUNT_CHASED = 32  # patterns that points are chased to
PURSUED = 256  # patterns of a moment matrix that points are chased to
CHASE_STEPS = 200
REALISED = 40  # linear programs for patterns, fewer where they are large
REALISED_ENTRIES = 400_000  # of all these programs together
WALK_CHASED = 256  # neighbours of one expansion, fewer where a pass is expensive
WALK_STEPS = 60  # of their chase
WALK_NEIGHBOURS = 4096  # patterns that are valued in one expansion
WALK_NEIGHBOUR_ENTRIES = 8_000_000
WALK_PROGRAMS = 8  # linear programs of one expansion
WALK_PROGRAM_SHARE = 0.5  # of what a walk spends
WALK_PATIENCE = 8  # expansions without improvement; three times as many on cheap networks
WALK_WORTH = 0.9  # of the record, for a pattern to be looked at
FORMS_SHARE = 0.2  # of what is left: a walk whose affine forms cost more is not begun
FORMS_ENTRIES = 100_000_000  # numbers in the affine forms of all neurons
MOMENT_SAMPLES = 192  # normal samples with the moments of a matrix
MOMENT_LEADING = 24  # eigenvectors
DIRECTION_SAMPLES = 200  # points whose Jacobians are looked at
DIRECTION_ROUNDS = 8  # searches along directions of the outputs, one for every output in the infinity norm
DIRECTION_POINTS = 5_000  # samples of each of these searches
REALISE_SECONDS = 2.0  # for the linear program of a cell without open signs
