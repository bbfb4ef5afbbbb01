"""build(): the relaxation of a problem that a specification describes."""

from __future__ import annotations

from lipcert.errors import InputError
from lipcert.problem.problem import Problem
from lipcert.problem.region import ball_of, hull, sides_of
from lipcert.relaxation.cuts import repeated, valid_table, with_cuts
from lipcert.relaxation.halfspaces import with_halfspaces
from lipcert.relaxation.lifts import lift
from lipcert.relaxation.model import Relaxation
from lipcert.relaxation.one_layer import one_layer
from lipcert.relaxation.reduced import reduced
from lipcert.relaxation.reduction import reduction_from
from lipcert.relaxation.specification import (
    FORMS,
    ONE_LAYER,
    UNSIGNED,
    Specification,
    check_case,
    check_reduction,
    check_relaxation,
)
from lipcert.relaxation.unsigned import unsigned


def build(problem: Problem, specification: Specification) -> Relaxation:
    """The relaxation with exactly the rows of the specification; pre-activation bounds are those of the problem.

    A specification that is none, of this network, is an InputError; a method that does not cover it a MethodError.
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
