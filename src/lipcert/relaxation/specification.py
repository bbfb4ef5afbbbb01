"""Specification: everything that a relaxation is made of, so that a checker builds the same one.

Which rows are worth their cost depends on the size of a problem. `plan_specification` decides that, once; `build` and
the files only repeat its decision.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import InputError, MethodError
from lipcert.problem.norms import INF, Norm
from lipcert.problem.problem import Problem
from lipcert.problem.region import ball_of, hull, sides_of
from lipcert.relaxation.cuts import NO_CUTS, Cuts, repeated, valid_table, with_cuts
from lipcert.relaxation.halfspaces import products_fit, with_halfspaces
from lipcert.relaxation.lifts import lift, needs_values, unsigned, wide_fits
from lipcert.relaxation.model import Index, Relaxation
from lipcert.relaxation.one_layer import chords_fit, needs_x, one_layer
from lipcert.relaxation.reduction import reduced, reduction_from

ONE_LAYER = ("shor", "hr2")
LIFTED = ("backward", "forward", "both")
UNSIGNED = "unsigned"  # the backward lift of a whole map without values and signs
FORMS = (*ONE_LAYER, *LIFTED, UNSIGNED)
LIFTS = (*LIFTED, *(f"{form}-free" for form in LIFTED))
RELAXATIONS = (*ONE_LAYER, *LIFTS, "tight")
TIGHT = "backward"  # the lift behind tight, chosen by measurement: docs/experiments/ablation.md


@dataclass(frozen=True, eq=False)
class Specification:
    """The rows of a relaxation.

    `method` is the name that the caller gave, `form` one of FORMS. `values`: whether the values x are in the matrix
    (where the region is bounded and a sign is open). `wide`: the chords that couple everything. `exclusions`: pairs of
    signs that the box does not allow. `signs`: those that are fixed on a cell, whose half-spaces are rows; `products`:
    whether these half-spaces and the region's are multiplied with each other and with the open signs. `cuts` are rows
    besides these. `reduction` is the table of a `Reduction`, where the matrix keeps a part of the network only.
    """

    method: str
    form: str
    values: bool = True
    wide: bool = False
    exclusions: bool = False
    signs: tuple[Index, ...] | None = None
    products: bool = False
    cuts: Cuts = NO_CUTS
    reduction: NDArray[np.int64] | None = None

    def with_cuts(self, cuts: Cuts) -> Specification:
        """This specification with these cuts in place of its own."""
        return replace(self, cuts=cuts)


def plan_specification(problem: Problem, method: str, signs: tuple[Index, ...] | None = None) -> Specification:
    """The rows that a method means for this problem: those that are worth their cost at its size.

    `signs` are those that are fixed on the cell that the problem is about; its values x then stay in the matrix, so
    that their half-spaces can.
    """
    check_relaxation(problem, method)
    check_case(problem)
    form, fixed = form_of(problem, method), signs is not None and any(s.any() for s in signs)
    cut = sides_of(problem.region) is not None
    plan = Specification(method, form, values=not method.endswith("-free"), exclusions=method == "tight")
    if form == "shor":
        plan = replace(plan, values=cut or needs_x(problem))
    elif method == "tight" and form == TIGHT and not (fixed or cut):
        plan = replace(plan, values=needs_values(problem))
    if form == "hr2":
        plan = replace(plan, wide=chords_fit(problem))
    elif form in LIFTED:
        plan = replace(plan, wide=wide_fits(problem, form, plan.values))
    if signs is None or not fixed or ball_of(problem.region) is not None or hull(problem.region) is None:
        return replace(plan, products=products_fit(problem, None)) if cut else plan
    return replace(plan, signs=signs, products=products_fit(problem, signs))


def form_of(problem: Problem, method: str) -> str:
    """The form that a method means for this network, norm and kind of region."""
    if method == "tight":
        return "hr2" if _is_one_layer(problem) else TIGHT
    return method.partition("-")[0]


def check_case(problem: Problem) -> None:
    """Refuse a problem that is the maximum of several problems."""
    if problem.has_cases:
        words = problem.norm.words
        raise MethodError(f"the norm {words} is the largest of several problems; ask for one of them")


def check_relaxation(problem: Problem, method: str) -> None:
    """Refuse a network, norm or region that the relaxation does not cover; of several cases, each."""
    if method == UNSIGNED:
        if not (problem.whole_map and problem.network.depth):
            raise MethodError("the lift without signs is for whole maps with a hidden layer; use tight")
        return
    if method not in RELAXATIONS:
        raise MethodError(f"unknown relaxation {method!r}; use one of {', '.join(RELAXATIONS)}")
    net, norm = problem.network, _norm_of_cases(problem)
    if method in LIFTS or (method == "tight" and not _is_one_layer(problem)):
        if net.depth == 0:
            raise MethodError(f"method {method} needs a hidden layer; an affine network is exact with interval")
        return
    if ball_of(problem.region) is not None:
        raise MethodError(f"method {method} works on boxes, not on balls; use tight, or one of {', '.join(LIFTS)}")
    if norm != INF:
        raise MethodError(
            f"method {method} works for one output in the infinity norm only, not in norm {norm.words}; use tight"
        )
    if net.depth != 1:
        raise MethodError(f"method {method} needs exactly one hidden layer; this network has {net.depth}; use tight")
    f = net.activations[0]
    if not f.kinked:
        raise MethodError(f"method {method} needs ReLU or leaky ReLU, not {f}; use tight")
    if not 0.0 <= f.alpha <= 1.0:
        raise MethodError(f"method {method} needs a leaky ReLU with slope at most 1, not {f.alpha:g}")
    if not net.is_chain:
        raise MethodError(f"method {method} is for networks whose scores do not read the input; use tight")


def refusal(problem: Problem, method: str) -> str | None:
    """Why the relaxation does not cover the problem, in one line; None when it does."""
    try:
        check_relaxation(problem, method)
    except MethodError as error:
        return str(error)
    return None


def check_reduction(problem: Problem, method: str) -> None:
    """Refuse problems that reductions do not cover."""
    other = next((f for f in problem.network.activations if f.kind != "relu"), None)
    if problem.norm != INF or other is not None or not problem.network.is_chain:
        raise MethodError(f"method {method} takes parts of chains of ReLU layers in the infinity norm only; use mixed")


def _is_one_layer(problem: Problem) -> bool:
    """Whether `tight` is `hr2` with more rows."""
    net = problem.network
    if net.depth != 1 or not net.is_chain or ball_of(problem.region) is not None or _norm_of_cases(problem) != INF:
        return False
    return net.activations[0].kinked and net.activations[0].alpha <= 1.0


def _norm_of_cases(problem: Problem) -> Norm:
    """The norm of one problem: without the outputs where each has its own."""
    return Norm(problem.norm.p) if problem.norm.out == "inf" else problem.norm


def build(problem: Problem, specification: Specification) -> Relaxation:
    """The relaxation with exactly the rows of the specification; pre-activation bounds are those of the problem.

    A specification that no relaxation of this network has is an InputError; a method that does not cover it is a
    MethodError.
    """
    s = specification
    if s.form not in FORMS or not valid_table(s.cuts.table) or repeated(s.cuts.table):
        raise InputError(f"no relaxation has the form {s.form!r} and these cuts")
    check_case(problem)
    check_relaxation(problem, s.form)
    relaxation = _own_rows(problem, s)
    signs = s.signs if ball_of(problem.region) is None and hull(problem.region) is not None else None
    if signs is not None or sides_of(problem.region) is not None:
        relaxation = with_halfspaces(relaxation, problem, signs, s.products)
    return with_cuts(relaxation, s.cuts)


def _own_rows(problem: Problem, s: Specification) -> Relaxation:
    if s.reduction is not None:
        check_reduction(problem, s.method)
        part = reduction_from(s.reduction, problem.network.shape)
        if part is None or s.form != "backward":
            raise InputError("the reduction is not one of this network")
        return reduced(problem, part)
    if s.form == UNSIGNED:
        return unsigned(problem)
    return one_layer(problem, s.form, s.values, s.wide, s.exclusions) if s.form in ONE_LAYER else _lifted(problem, s)


def _lifted(problem: Problem, s: Specification) -> Relaxation:
    return lift(problem, s.form, s.values, s.wide, s.exclusions)
