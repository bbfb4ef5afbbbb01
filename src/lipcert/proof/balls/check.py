"""The second checker: every kind of proof that a certificate may hold, in ball arithmetic.

Pre-activation bounds, gradients, norms, semidefiniteness and sums are computed here in numbers that carry their own
error. docs/trust.md lists what is shared with the ordinary checker: the rows of relaxations above all. How much a check
in balls is, is estimated before it begins: a proof that is too large is refused in one line.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from lipcert.bounds.interval import Interval
from lipcert.bounds.propagation import made_in, preactivations
from lipcert.errors import FileFormatError, InputError, MethodError
from lipcert.problem.activations import IDENTITY
from lipcert.problem.network import Network
from lipcert.problem.problem import FORMS, Problem
from lipcert.problem.region import hull, sides_of
from lipcert.proof.arithmetic import Arithmetic
from lipcert.proof.balls.arithmetic import case_table, check_arithmetic
from lipcert.proof.balls.cells import Hint, box_is_proved, region_bounds
from lipcert.proof.balls.collapsed import proved_collapse
from lipcert.proof.balls.margins import offset_margin
from lipcert.proof.balls.numbers import BITS, above, float_above, load_flint
from lipcert.proof.balls.rows import check_multipliers, check_rows
from lipcert.proof.balls.slopes import check_part
from lipcert.proof.balls.systems import BallSystem
from lipcert.proof.balls.trees import check_tree
from lipcert.proof.balls.zonotope import zonotope_bounds
from lipcert.proof.cases import Cases, case_of
from lipcert.proof.certificate import Certificate, Proof
from lipcert.proof.channels import Channels
from lipcert.proof.leaves import Leaves
from lipcert.proof.margins import MarginCertificate, MarginProof, Place, joint_bounds, with_margins
from lipcert.proof.multipliers import Multipliers
from lipcert.proof.preorder import Preorder
from lipcert.proof.sharpened import Sharpened, Sharper, Within, covered, innermost, narrowed, scores_of
from lipcert.proof.slopes import WHOLE, Slopes
from lipcert.proof.tree import Tree
from lipcert.proof.ways import WithBounds, name_of
from lipcert.relaxation.margin import applies, margin
from lipcert.rounding import Array, best, worst

MOST_WORK = 4e9  # operations on balls, of which a core does about 2e7 in a second: about three minutes
_LOOSE = 30  # operations on an entry besides products
_SMOOTH = 3e5  # for the lines of a neuron whose activation is smooth
_CELL = 1e5  # for a cell besides


def check_with_balls(certificate: Certificate, net: Network) -> float:
    """The bound that the certificate proves of this network, rounded up; infinite when it proves none."""
    flint, question = load_flint(), certificate.question.about(net)
    if certificate.refused(net) is not None:
        return math.inf
    with flint.ctx.workprec(BITS), np.errstate(all="ignore"):
        try:
            if not box_is_proved(question.region):
                return math.inf
            problem = question.problem()
            check_work(problem, innermost(certificate.proof))
            return check(problem, certificate.proof)
        except (MethodError, FileFormatError):
            raise
        except InputError:  # rows that overflow, or that are none
            return math.inf


def what_is_checked(proof: Proof) -> str:
    """In words, what the balls are asked to prove."""
    match proof:
        case WithBounds():
            return f"{name_of(proof.way)} of pre-activations, {what_is_checked(proof.inner)}"
        case Sharpened():
            return f"multipliers of sharper pre-activation bounds, {what_is_checked(proof.inner)}"
        case Within():
            return f"the network of the open neurons, {what_is_checked(proof.inner)}"
        case Arithmetic(method="product"):
            return "norms of all weights"
        case Arithmetic():
            return f"pre-activation bounds, {proof.method} bounds of the gradient"
        case Multipliers():
            return "pre-activation bounds, semidefiniteness and the bound (rows as built in floating point)"
        case Cases():
            return f"pre-activation bounds, intervals of all cases, {len(proof.cases)} relaxations (rows as built)"
        case Slopes():
            return f"pre-activation bounds, slopes, {len(proof.parts)} chains of Schur complements"
        case Tree(leaves=Leaves() as leaves) if proof.method == "signs":
            return f"pre-activation bounds, {proof.count:,} leaves of signs, {leaves.nogoods.count:,} refusals"
        case Tree():
            return f"the bounds and the proofs of {proof.count:,} leaves (rows of relaxations as built)"
        case Preorder():
            return what_is_checked(proof.sketch)
        case _:
            return f"the proof by {proof.method}"


def check(problem: Problem, proof: Proof) -> float:
    """The bound that a proof proves of a problem, infinite when none; pre-activation bounds are proved first."""
    if isinstance(proof, Arithmetic) and proof.method == "product":
        return check_arithmetic(problem, (), proof)  # on any region, so no bounds are needed
    way = proof.way if isinstance(proof, WithBounds) else FORMS
    hint = preactivations(problem if way == FORMS else made_in(problem, way))
    pre = region_bounds(problem, hint, zonotope_bounds(problem) if way.symbols else None).pre
    return check_on(problem.on(problem.region, tuple(pre), way=way), pre, proof)


def check_on(problem: Problem, pre: Hint, proof: Proof) -> float:
    """The bound that a proof proves with pre-activation bounds that are proved and kept with the problem."""
    match proof:
        case WithBounds():
            return check_on(problem, pre, proof.inner)
        case Sharpened():
            better = sharpened(problem, pre, proof.sharper)
            return math.inf if better is None else check_on(better, preactivations(better), proof.inner)
        case Within():
            small = proved_collapse(problem, pre)
            if small is None:
                return math.inf
            check_work(small.problem, proof.inner)
            return small.above(check_on(small.problem, preactivations(small.problem), proof.inner))
        case Arithmetic():
            return check_arithmetic(problem, pre, proof)
        case Multipliers():
            return check_multipliers(problem, proof)
        case Cases():
            return _cases(problem, pre, proof)
        case Slopes():
            return _slopes(problem, pre, proof)
        case Channels():
            raise MethodError("the exact check does not know slopes with one multiplier per channel; use verify")
        case Tree():
            return check_tree(problem, pre, proof)
        case Preorder():
            return check_tree(problem, pre, proof.tree(problem.network))
        case _:
            raise MethodError(f"the exact check does not know proofs by {proof.method}; use verify")


def _cases(problem: Problem, pre: Hint, proof: Cases) -> float:
    """The largest over all cases of the smaller of intervals and its own multipliers."""
    if not problem.has_cases:
        return math.inf
    table = above(case_table(problem, pre))
    for case in proof.cases:
        at = case.row, case.column
        if not (0 <= at[0] < table.shape[0] and 0 <= at[1] < table.shape[1]):
            return math.inf
        table[at] = best(float(table[at]), check_multipliers(case_of(problem, *at), case.proof))
    return worst(float(table.max()))


def _slopes(problem: Problem, pre: Hint, proof: Slopes) -> float:
    """The largest over all cases of what intervals, the whole problem and its own part prove."""
    whole = best(*(check_part(problem, pre, p) for p in proof.parts if p.place == (WHOLE, WHOLE)))
    cases = [p for p in proof.parts if p.place != (WHOLE, WHOLE)]
    if not problem.has_cases:
        return math.inf if cases else whole
    if not cases:
        return whole
    table = above(case_table(problem, pre))
    for p in cases:
        if not (0 <= p.row < table.shape[0] and 0 <= p.column < table.shape[1]):
            return math.inf
        table[p.place] = best(float(table[p.place]), check_part(case_of(problem, *p.place), pre, p))
    return worst(float(np.minimum(table, whole).max()))


def sharpened(problem: Problem, pre: Hint, sharper: Sharper) -> Problem | None:
    """The problem with the bounds that these multipliers prove; None where they do not fit it."""
    small = proved_collapse(problem, pre)
    base = problem if small is None else small.problem
    known = preactivations(base)
    finite = all(np.all(np.isfinite(end)) for z in known for end in z)
    cut = sides_of(base.region)
    cuts = 0 if cut is None else cut.count
    if hull(base.region) is None or base.network.depth < 2 or not finite or not sharper.fits(base.network, cuts):
        return None
    hint = sharper.of(problem)  # the ordinary code's, to be proved
    if hint is None:
        return None
    wished = preactivations(hint)
    every = [(i, np.arange(len(z.lo))) for i, z in enumerate(pre, start=1)]
    places = every if small is None else list(small.neurons)
    net = base.network

    def better(k: int, below: Hint, z: Interval) -> Interval:
        part = Network.from_blocks((*net.hidden[:k], replace(net.hidden[k], activation=IDENTITY)))
        if not k or not covered(part, below):
            return z
        return _narrowed(sharper, k, BallSystem.over(part, base.region, below), z)

    question = tuple(Interval(wished[i - 1].lo[own], wished[i - 1].hi[own]) for i, own in places)
    found = region_bounds(base, question, known, better).pre
    kept = [Interval(z.lo.copy(), z.hi.copy()) for z in pre]
    for (i, own), z in zip(places, found, strict=True):
        kept[i - 1].lo[own] = np.fmax(kept[i - 1].lo[own], z.lo)
        kept[i - 1].hi[own] = np.fmin(kept[i - 1].hi[own], z.hi)
    return problem.on(problem.region, tuple(kept), way=problem.facts.way)


def _narrowed(sharper: Sharper, k: int, system: BallSystem, z: Interval) -> Interval:
    """With what the multipliers of the targets in block k prove."""
    some = np.flatnonzero(sharper.targets[:, 0] == k + 1)
    if not len(some):
        return z
    targets = sharper.targets[some]
    y, t = sharper.laid_out(system.neurons, some, system.cuts)
    nothing = np.zeros(y.shape, dtype=np.int8)
    top: Array = above(system.largest(y, t, nothing, scores_of(targets, system.net.outputs)))
    return narrowed(z, targets, top)


def margins_with_balls(certificate: MarginCertificate, net: Network) -> list[float]:
    """The proved bound of each row, infinite where there is none."""
    flint, region = load_flint(), certificate.region
    if certificate.refused(net) is not None:
        return [math.inf] * len(certificate.proofs)
    check_work(Problem.of(net, region, 0), None)
    with flint.ctx.workprec(BITS), np.errstate(all="ignore"):
        return [_checked(proof, net, region) for proof in certificate.proofs]


def _checked(proof: MarginProof, net: Network, region: Place) -> float:
    try:
        return _check(proof, net, region)
    except MethodError:
        raise
    except InputError:  # rows that overflow
        return math.inf


def _check(proof: MarginProof, net: Network, region: Place) -> float:
    if proof.c.shape != (net.outputs,):
        return math.inf
    longer = with_margins(net, proof.c[None, :])
    found = region_bounds(Problem.of(longer, region, 0), joint_bounds(longer, region)).pre
    if not proof.multipliers:
        return float(found[-1].hi[0])
    if not applies(net):
        return math.inf
    if proof.keep < 0:
        return offset_margin(net, region, proof.c, tuple(found), proof.multipliers)
    problem = Problem.of(net, region, proof.c).on(region, tuple(found[: net.depth]))
    question = margin(problem, proof.keep)
    relaxation = question.relaxation
    if not relaxation.fits(proof.multipliers, proof.shift):
        return math.inf
    upper = check_rows(relaxation, relaxation.unpack(proof.multipliers), relaxation.gather(proof.shift))
    return float_above(load_flint().arb(upper) - load_flint().arb(question.lift)) if math.isfinite(upper) else math.inf


def check_work(problem: Problem, proof: Any) -> None:
    """Refuse what would take longer than a few minutes."""
    check_cells(problem.network, _cells(proof), 1 + problem.network.outputs * problem.whole_map)


def check_cells(net: Network, cells: int, gradients: int) -> None:
    """Refuse a number of cells, with so many gradients on each, that would take longer than a few minutes."""
    work = cell_work(net) * cells * gradients
    if work > MOST_WORK:
        raise MethodError(
            f"too large for the exact check: about {work:.1e} operations in balls, more than {MOST_WORK:.0e}; "
            "use verify without it"
        )


def cell_work(net: Network) -> float:
    """Forms of all neurons and of all entries of the gradient, once: rows times what they are carried through."""
    sizes = [b.entries + _LOOSE * b.width for b in net.blocks]
    below = np.cumsum([0.0, *sizes])
    up = sum(2.0 * b.width * below[k] for k, b in enumerate(net.hidden, start=1))
    total = float(below[-1])
    down = sum(2.0 * n * (total - float(below[j])) for j, n in enumerate(net.shape[:-1]))
    smooth = sum(b.width for b in net.hidden if not b.activation.piecewise_linear)
    return float(up + down) + _SMOOTH * smooth + _CELL


def _cells(proof: Any) -> int:
    """How often the bounds of a region or a cell are made."""
    own = proof.sketch if isinstance(proof, Preorder) else proof
    return own.cells if isinstance(own, Tree) else 1
