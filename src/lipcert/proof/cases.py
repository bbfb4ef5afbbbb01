"""Constants that are the largest of several: in norm 1 one for every input coordinate, to norm inf one for each output.

    p = 1      L = max_i |dg/dx_i|          q = inf    L = max_k (constant of score k)

Intervals bound all of them at once; a few are then proved by a relaxation. The bound is the largest over all of the
smaller of both. A checker computes the intervals for all of them again, so none can be left out.
"""

from __future__ import annotations

import numpy as np

from lipcert.bounds.propagation import Interval
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.problem.region import Region
from lipcert.proof.certificate import Certificate, ProvedCase
from lipcert.proof.cheap import jacobian_bounds
from lipcert.proof.multipliers import check
from lipcert.proof.relaxed import build
from lipcert.relaxation.cuts import Cuts, valid_table, with_cuts
from lipcert.relaxation.lifts import has_wide
from lipcert.relaxation.model import Relaxation
from lipcert.relaxation.one_layer import CHORDS
from lipcert.rounding import Array


def has_cases(norm: Norm) -> bool:
    return norm.p == "1" or norm.out == "inf"


def case_norm(norm: Norm) -> Norm:
    """The norm of one problem: without the outputs where each has its own."""
    return Norm(norm.p) if norm.out == "inf" else norm


def case_table(net: Network, region: Region, norm: Norm, c: Array, pre: tuple[Interval, ...] | None = None) -> Array:
    """Interval bounds of all problems: (outputs or 1) x (inputs or 1)."""
    size = jacobian_bounds(net, region, norm, c, pre)
    if norm.p != "1":
        size = norm.dual.rows_above(size)[:, None]
    if norm.out is not None and norm.out != "inf":
        size = norm.outputs.rows_above(size.T)[None, :]
    return size


def case_of(net: Network, norm: Norm, c: Array, row: int, column: int) -> tuple[Array, int, int | None]:
    """The weights of the output, its number (-1: as asked) and the input coordinate of an entry of the table."""
    output = row if norm.out == "inf" else -1
    weights = np.eye(net.outputs)[row] if output >= 0 else c
    return weights, output, column if norm.p == "1" else None


def proved_case(certificate: Certificate, output: int) -> ProvedCase:
    """What is kept of the proof of one problem."""
    values = [*certificate.multipliers.values(), *certificate.shift.values()]
    wide, with_x = CHORDS in certificate.multipliers or has_wide(certificate.multipliers), "w" in certificate.shift
    coordinate = -1 if certificate.coordinate is None else certificate.coordinate
    return ProvedCase(output, coordinate, wide, with_x, np.concatenate(values), certificate.cuts, certificate.upper)


def prove_cases(
    net: Network, region: Region, norm: Norm, c: Array, method: str, table: Array, cases: tuple[ProvedCase, ...]
) -> Certificate:
    """The largest of all problems; `table` are their interval bounds."""
    table = table.copy()
    for case in cases:
        at = max(case.output, 0), max(case.coordinate, 0)
        table[at] = min(table[at], case.upper)
    return Certificate(method, net.sha256, region, norm, c, float(table.max()), cases=cases)


def recheck_cases(certificate: Certificate, net: Network) -> float:
    """The bound that the cases prove together with intervals for all the others."""
    about = (net, certificate.region, certificate.norm, certificate.c)
    if not has_cases(certificate.norm):
        return np.inf
    table = case_table(*about)
    for case in certificate.cases:
        row, column = max(case.output, 0), max(case.coordinate, 0)
        if row >= table.shape[0] or column >= table.shape[1]:
            return np.inf
        table[row, column] = min(table[row, column], _recheck_case(certificate, net, case, row, column))
    return float(table.max())


def _recheck_case(certificate: Certificate, net: Network, case: ProvedCase, row: int, column: int) -> float:
    weights, _, coordinate = case_of(net, certificate.norm, certificate.c, row, column)
    norm, options = case_norm(certificate.norm), (None, case.wide, case.values)
    if case.cuts is not None and not valid_table(case.cuts):
        return np.inf
    about = (net, certificate.region, norm, weights, certificate.method, *options)
    relaxation = build(*about, coordinate=coordinate)
    if case.cuts is not None:
        relaxation = with_cuts(relaxation, Cuts(case.cuts))
    multipliers, shift = _unflatten(relaxation, case.numbers)
    if multipliers is None or shift is None:
        return np.inf
    return check(relaxation, multipliers, shift).upper


def _unflatten(relaxation: Relaxation, numbers: Array) -> tuple[Array | None, Array | None]:
    """Multipliers of the rows and shifts of the variables from the array of a case; None when it does not fit."""
    totals = [f.total for f in relaxation.families]
    widths = {name: len(v) for name, v in relaxation.spread(np.zeros(relaxation.space.size)).items()}
    if numbers.shape != (sum(totals) + sum(widths.values()),):
        return None, None
    pieces = np.split(numbers, np.cumsum([*totals, *widths.values()])[:-1])
    packed = {f.name: v for f, v in zip(relaxation.families, pieces, strict=False)}
    full = dict(zip(widths, pieces[len(totals) :], strict=True))
    return relaxation.unpack(packed), relaxation.gather(full)
