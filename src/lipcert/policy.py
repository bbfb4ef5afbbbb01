"""Policy of the methods: constants that decide how work is divided between methods and when a method is worth trying.

Each constant says what it was measured on. No constant can make a bound wrong: it only decides which bounds are looked
for. Constants of budgets, bounds, relaxations, solvers and witnesses stand beside the formulas that use them.
"""

from __future__ import annotations

# --- Memory (measured by the growth of the process on one and two hidden layers, orders of 300 to 2,000) --------------
LOW_RANK_MATRICES = 8.0  # times the order squared: a first-order method, and the eigenvalue that ends it
PROOF_MATRICES = 8.0  # times the order squared: a proof
SLOPES_MATRICES = 6.0  # times the order squared of the largest piece: a proof by slopes,
SIGNS_COPIES = 3.0  # of a network laid flat, and its linear program

# --- Brackets ---------------------------------------------------------------------------------------------------------
NOTHING = 1e-140  # a constant below this is zero but for what rounding adds to it
CLOSED = 1e-6  # the relative gap at which a bracket is called closed: about what proofs lose to rounding

# --- Shares of the budget, by what they are given to ------------------------------------------------------------------
PRELUDE_SHARE = 0.6  # for each of the cheap methods that come first: on very large networks bounds take any time
SEARCH_CHEAP = 1.0  # seconds, for a witness beside arithmetic, where that took no longer
SEARCH_BESIDE_A_SOLVER = 0.2  # for a witness where a relaxation follows; more gained nothing on SDP-NN and ERAN 3_50
SEARCH_BEFORE_TURNS = 0.02  # for a first witness of method auto, which looks again between its turns
GAINS_SHARE = 0.5  # the most that the rows of all Jacobians may take of what is left

# --- Witnesses from moment matrices (measured on (80,80) and ERAN 3_50) -----------------------------------------------
MOMENTS_SHARE = 0.04  # of the whole budget, at most, for one matrix
MOMENTS_SHARE_LEFT = 0.15  # of what is left then
MOMENTS_LEAST = 0.004  # of the whole budget, below which no matrix is looked at any more
MOMENTS_OPERATIONS = 2500.0  # times the order squared: leading eigenvectors of one matrix
MOMENTS_GAIN = 1e-6  # a witness that is better by less than this counts as none

# --- Method auto: turns (no network was looked at for these; the run measures what matters) ---------------------------
TRIAL_SHARE = 0.02  # of the budget, for the first turn of an engine, and twice that for its second,
TRIAL_LEAST = 0.25  # seconds of it at least
TURN_SHARE = 0.5  # of what is left, for the engine that promises most
TURN_LEAST = 0.5  # seconds of it at least
LOOK_SHARE = 0.2  # of what a turn took, for a witness after it; half as much after each that found nothing, and twice
LOOK_SHARE_MOST = 0.5  # as much, up to this, after one that closed more of the gap than the turn,
LOOK_MOST = 0.5  # of what is left, at most,
LOOK_LEAST = 0.02  # and not before this share of the budget came together: short searches find nothing
LOOK_LAST = 1.0  # seconds, or as long as all took so far, for a last look where nothing else is left to do
CELLS_ALONE = 0.5  # of the budget: the same where signs do not apply
CELLS_WORTH = 0.02  # of the budget: cells are no match for signs where a batch and a relaxation take longer
TIGHT_LEAVES = 0.3  # of d = log(bound/witness) is left by method tight,
MORE_LEAVES = 0.06  # and this times d: 0.05 to 0.8 was, on seven networks of benchmarks/ with d from 0.2 to 8
FREE_LEAVES = 0.45  # the same of backward-free: 0.43 to 0.78 on four
PRICES = 4.0  # times what a relaxation is expected to take, at most, for its first turn
CHEAP_TRY = 0.05  # of what is left: an engine that was not tried and costs less is tried first,
CHEAP_TIMES = 3.0  # for so many times its price, or the time of a first turn
CHEAPER = 0.25  # of the price of one that promises more, and has not been tried either: so cheap ones come before it
FALLING = 0.9  # of its bound, or less, is expected after twice the work of an engine that falls fast
RIVAL = 1.25  # times the best forecast: time is kept for an engine that promises no more than this
LONG_SHARE = 0.5  # of what is left, for a turn of an engine that cannot be continued, where it has a rival,
LONGEST_SHARE = 0.85  # and where it has none
HOPE_TIMES = 5.0  # what an engine had in vain must be left, or nothing is expected of it any more
EARLY = 0.5  # of its turn: an engine that goes on where it was, and stops before this without a gain, has ended,
IDLE_TURNS = 3  # and one that begins anew after so many of them in a row
AGAIN_TIMES = 2.0  # what another turn must have to be worth anything, so that it is worth something

# --- Cells: when they are tried (measured on the paper's (10,10) and (20,20) networks and ACAS Xu 1_1) ----------------
CELLS_INPUTS = 8  # inputs, at most, for which boxes of networks with kinks are halved

# --- Planning: which relaxations, in which order (measured on ERAN 3_50, 5_100, 784-1000-1000 and 8 x 1000) -----------
LARGEST_ORDER = 4000  # of a moment matrix that is worth trying: 1 GB and minutes for one factorisation of its rows
# Rows of a relaxation, by what they are about (counted on 18 random networks of one to ten layers: within a fifth)
ROWS_OF_ONE_LAYER = 6.0  # an input or an open neuron of one hidden layer,
ROWS_OF_INNER, ROWS_OF_LAST = 16.5, 8.5  # an open neuron before the last block of a deep network, and in it,
ROWS_OF_FREE = 8.5  # and before it without values
EASY_SHARE = 0.6  # of the budget: when the whole network takes less, parts of it are not needed
HOPELESS_SHARE = 1.3  # of the budget: a whole network that is expected to take more is not begun where parts are
QUICK = 0.5  # seconds: nothing needs to come before a whole network that takes less
FIRST_PART_SHARE = 0.02  # of the budget, for a part that comes before a whole network that is soon done
STEP_MOST = 0.85  # of the budget that one step may be expected to take
TWO_SIDED_OPERATIONS = 30.0  # times the order cubed: alternation is quick, its two proofs are not
PARTS = 5  # steps besides the whole network
STEP_SHARE = 0.5  # of what is left, at most, for a step that others follow
FIRST_SHARE = (
    0.1  # of what is left, at most, for a part before the whole network: its bound stands if that does not end
)
FIRST_TIMES = 4.0  # and at most so many times what it is expected to take

# --- Proofs on the way ------------------------------------------------------------------------------------------------
PROOF_OPERATIONS = 10.0  # times the order cubed: eigenvalues and two factorisations
PROOF_SHARE = 0.08  # of a solver's work may go into proofs on the way
LAST_PROOF_SHARE = 0.7  # of the budget, at most, may be kept for the last proof
FIRST_PROOF = 1.0  # seconds of a solve before its first proof
WORTH_A_PROOF = 0.999  # times the best bound of a solve: multipliers that promise more are not worth a proof

# --- Elimination of slopes --------------------------------------------------------------------------------------------
ELIMINATION_FROM = 17  # open neurons: fewer are closed by branch and bound in as little time

# --- Rounds of cuts (measured on the paper's (80,80) networks and ACAS Xu 1_1; docs/experiments/ablation.md) ----------
ROUNDS_LEAST = 4.0  # solves that must fit, or there is one without cuts
ROUND_SHARE = 0.3  # of what is left may go into the next round
ROUND_GAIN = 2e-4  # a gain that is worth another round
ROUND_CALLS = 2e4  # calls around a solve that do not depend on its size
CUT_IDLE = 1e-6  # a multiplier, relative to the bound, below which a cut is idle
CUT_NEAR = 0.15  # an idle cut with less slack than this is kept: dropped, it would be violated in the next round
SEPARATION_OPERATIONS = 60.0  # times the order squared: looking for violated cuts
BUILD_CALLS = 5e3  # calls of building a relaxation

# --- Cells: where to split and when to relax (measured on the paper's small networks and ACAS Xu 1_1) -----------------
CELLS_AT_ONCE = 64  # nodes split at a time
CELLS_STEP = 0.1  # of what is left, at most, for one batch
SPLITS_TRIED = 3  # neurons tried at a time, where boxes are not split
SIGNS_BESIDE_BOXES = 12  # open signs, up to which a neuron is tried besides a coordinate,
BOXES_IDLE = 4  # or after so many splits of boxes in a row
BOXES_GAIN = 0.95  # that left more than this of the bound
ROUNDS_AT_ROOT = 4  # of cuts, which all cells inherit
CELL_SHARE = 0.25  # of what is left, at most, for one relaxation,
CELL_LEAST = 1.0  # and at least so many seconds
RELAX_SHARE = 0.5  # of the work so far, at most, for one relaxation,
RELAX_SHARE_OF_BOXES = 0.05  # where boxes are split: linear bounds of small boxes nearly always gained more
RELAX_OPEN = 6  # open signs, up to which a cell is split rather than relaxed
CELLS_GROWTH = 0.6  # a cell with k open signs is about 2^(0.6 k) cells in the end
CELLS_SHRINKING = 0.8  # where boxes are split, one with an excess of 2^e is about 2^(0.8 e) cells,
CELLS_NEAR = 2.0  # times two to this power, because the last of the excess goes slowly
EXCESS_FIRST = 4.0  # the largest excess that is relaxed, in powers of two, at first
EXCESS_STEP = 0.25  # by which it rises with every success and falls with every failure,
EXCESS_LEAST = 2.0  # however often it fails: without boxes to split there is nothing better
EXCESS_LEAST_OF_BOXES = 0.25
CELL_SLOWER = 3.0  # a relaxation of a cell than the planner thinks: matrices are small and cuts follow
CELL_OVERHEAD = 0.15  # seconds of it that do not depend on its size
CELL_SETTLED = 2e-3  # the relative gap at which a bound that decides nothing is good enough
CELL_SIDES = 40.0  # looks at an entry of a form for each half-space of a cell
CELL_SMOOTH = 60.0  # and at a weight of a smooth block (784-40, 200-50-50, 8-100-100 and 20-40-40 neurons)
CELL_CALLS = 40.0  # calls around the cheap bounds of one cell; their operations are those of all forms,
CELL_CLOSED, CELL_OPEN = 0.5, 4.0  # times so much without open signs, and so much more the more are open (ACAS Xu 2_1)
POLISH_ROUNDS, POLISH_POINTS = 8, 128  # around a cell's center that is a new witness
CELLS_PATIENCE = 30.0  # seconds for cells that were sent; then they are bounded here
CELLS_WORTH_SENDING = 16  # for each worker

# --- All products and all triangles of one hidden layer (measured on SDP-NN; docs/experiments) -----------------------
PRODUCTS_FROM = 600  # the order from which products at once beat rounds of cuts
PRODUCTS_INTERIOR_TIMES = 4.0  # expected times of the interior point that must fit, where x takes part
PRODUCTS_INTERIOR_SHARE = 0.45  # of the budget kept for it, at least
PRODUCTS_LOOK_SHARE = 0.2  # of the work may go into bounds on the way
PRODUCTS_GAIN = 3e-4  # in a bound that is worth a proof on the way
PRODUCTS_PROOFS = 12.0  # proofs that must fit into the budget
TRIANGLES_LOOK_SHARE = 0.12  # of the work may go into bounds on the way
TRIANGLES_LOOK_STEPS, TRIANGLES_LAST_STEPS = 300, 1000  # of polishing the vectors before a bound
TRIANGLES_GAIN = 1e-3  # in a bound that is worth a proof on the way
TRIANGLES_LAST_PROOFS = 12.0  # proofs whose time the last bound takes, at most

# --- Cases: the largest of several constants --------------------------------------------------------------------------
CASE_SHARE = 0.25  # of what is left, at most, for one case,
CASE_LEAST = 1.0  # and at least so many seconds, where half of what is left is as much

# --- Witness: the search for points with a large gradient -------------------------------------------------------------
# Shares, patience and counts were chosen on ERAN 3_50, ACAS Xu 1_1, a convolution of MNIST, and (80,80), (40,40,10) and
# SDP-NN of the paper with seed 0, and looked at with other seeds: docs/experiments/lower-bounds.md.
REALISE_SECONDS = 2.0  # for the linear program of a cell without open signs

# --- Signs: branching over the signs of open ReLUs (measured on mnist-net_256x2, ERAN 5_100 and DiffAI, collapsed) ----
SIGNS_FEWEST, SIGNS_MOST = 16, 256  # patterns taken at a time,
SIGNS_PART = 8  # one in so many of those that are open
SIGNS_QUICK = 50.0  # operations for every coefficient of the forms of a pattern,
SIGNS_PROOF = 110.0  # and in its proof
SIGNS_CALLS = 20.0  # calls around a pattern, or around a linear program
SIGNS_ASK = 40.0  # looks at every entry of a linear program before its first pivot,
SIGNS_PIVOT = 2.0  # and in every pivot,
SIGNS_PIVOTS = 50.0  # of which there may be so many however little is left
SIGNS_EVALUATE = 20.0  # operations for every entry of the network, at a point that is proved
SIGNS_ENTRIES = 50_000_000  # of a network that is laid flat: 400 MB
SIGNS_KNOWN = 4096  # answers of linear programs that are remembered
# --- Sharper pre-activation bounds by linear programs (measured on mnist-net_256x2 and ERAN 3_50) ---------------------
SHARPEN_SHARE = 0.1  # of the first turn of a search over signs, or of a relaxation,
SHARPEN_AGAIN = 3.0  # which begins again where the last share was too short and this one is so many times as long
SHARPEN_WORTH = 0.05  # of the widths of open neurons' bounds: a certificate without them is smaller
SIDES_SHARE = 0.1  # of the budget, for the box around a region with half-spaces
UNION_FIRST = 0.2  # of the budget, for cheap bounds on all of several regions
UNION_SHARE = 0.5  # of what is left, for a turn on one of them
# --- Slopes: one multiplier per neuron (measured on random networks of depth 16 to 64, ERAN 3_50 and cifar_base_kw) ---
SLOPES_PROOF = 3.0  # times the sum of the orders cubed: one proof,
SLOPES_CALLS = 60.0  # and the calls around each of its pieces
SLOPES_CENTRED = 30.0  # times as much where neurons have one slope: their pieces are changed and tried again (avgpool)
SLOPES_GAIN = 1e-3  # in a bound that is worth a proof on the way,
SLOPES_SHARE = 0.15  # which together take no more of a solver's work than this
SLOPES_PROOFS = 200.0  # times one proof: about what a solver takes
SLOPES_FIRST = 0.05  # of the budget, for the greedy pass that other methods begin with
SLOPES_BEFORE_TIGHT = 0.3  # of the budget, at most, for slopes before method tight
SLOPES_LEAVES = 0.4  # of d = log(bound/witness) is left by method slopes, on the same networks
# Their solver (measured on square layers of depth 16 to 100 and width 10 to 64)
# 64, 100 are needed at width 64, and there they are 100 times cheaper
