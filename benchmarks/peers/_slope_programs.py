"""LipSDP-Neuron's and GeoLIP's programs, written out and solved by SCS: one multiplier for every neuron.

A ReLU with input z and output y, both of differences, has a slope in [0, 1]: y (z - y) >= 0. With multipliers
lambda >= 0 for these, and y_k = u_k * (W_k y_{k-1}):

    LipSDP-Neuron  min rho              s.t.  rho |y_0|^2 - |W y_m|^2 - sum lambda_j y_j (z_j - y_j)  >= 0  for all y
    GeoLIP         min gamma + sum tau  s.t.  gamma + sum tau_i t_i^2 - c'y_m - sum lambda_j y_j (z_j - y_j) >= 0

with y_0 = t, each a linear matrix inequality. The first bounds the square of the Euclidean constant [Fazlyab, Robey,
Hassani, Morari, Pappas 2019], the second the constant in the infinity norm of one output [Wang, Prakriya,
Jha 2022: the dual of its natural relaxation]. Both hold on the whole space. SCS's objective is told as it is: nothing
here is a proof.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks.peers._peer import Answer, dense_weights, plain_relu_chain
from lipcert.problem.problem import Problem
from lipcert.rounding import Array

Index = NDArray[np.int64]
LARGEST = 260  # order of the matrix: SCS takes minutes above
TOLERANCE, ITERATIONS = 1e-6, 10_000


@dataclass
class Inequality:
    """S(v) = sum_k v_k B_k + B_0 of some order, as entries of the lower triangle; the v_k are counted as they come."""

    order: int
    columns: list[tuple[int, Index, Array]] = field(default_factory=list)
    count: int = 0

    def add(self, rows: Index, cols: Index, values: Array, variable: int) -> None:
        """Entries of B_variable (of B_0 for -1): value (i, j) stands for both (i, j) and (j, i)."""
        i, j = np.maximum(rows, cols), np.minimum(rows, cols)
        place = j * self.order - j * (j - 1) // 2 + (i - j)
        self.columns.append((variable, place, np.where(i == j, values, np.sqrt(2.0) * values)))
        self.count = max(self.count, variable + 1)

    def cone_form(self) -> tuple[sparse.csc_matrix, Array]:
        """A and b of  A v + s = b,  s the scaled triangle of S(v)."""
        variables = np.concatenate([np.full(len(p), k) for k, p, _ in self.columns])
        places = np.concatenate([p for _, p, _ in self.columns])
        values = np.concatenate([v for _, _, v in self.columns])
        moving, size = variables >= 0, self.order * (self.order + 1) // 2
        A = sparse.csc_matrix((-values[moving], (places[moving], variables[moving])), shape=(size, self.count))
        return A, np.asarray(np.bincount(places[~moving], values[~moving], minlength=size), dtype=np.float64)


def add_neurons(lmi: Inequality, hidden: list[Array], start: int, variable: int) -> int:
    """- lambda_j y_j (z_j - y_j) for every neuron; `start` is the place of y_0. Returns the place of the last layer."""
    for W in hidden:
        width, before = W.shape
        places, sources = start + before + np.arange(width), start + np.arange(before)
        for place, row in zip(places, W, strict=True):
            used = np.flatnonzero(row)
            lmi.add(np.full(len(used), place), sources[used], -0.5 * row[used], variable)
            lmi.add(np.array([place]), np.array([place]), np.ones(1), variable)
            variable += 1
        start += before
    return start


def solve(lmi: Inequality, objective: Array) -> tuple[float, float, str]:
    """The optimal value over v >= 0 by SCS, seconds, and what SCS said where it was not "solved"."""
    import scs

    A, b = lmi.cone_form()
    signs = sparse.eye(lmi.count, format="csr")
    data = {
        "A": sparse.csc_matrix(sparse.vstack([-signs, A])),
        "b": np.concatenate([np.zeros(signs.shape[0]), b]),
        "c": objective,
    }
    start = time.perf_counter()
    found = scs.solve(
        data,
        {"l": signs.shape[0], "s": [lmi.order]},
        verbose=False,
        eps_abs=TOLERANCE,
        eps_rel=TOLERANCE,
        max_iters=ITERATIONS,
    )
    status = str(found["info"]["status"])
    return float(found["info"]["pobj"]), time.perf_counter() - start, "" if status == "solved" else f"SCS: {status}"


def _order(problem: Problem) -> int:
    return 1 + problem.network.inputs + problem.network.neurons


class LipSDP:
    """LipSDP-Neuron, norm 2 at both ends."""

    name = "LipSDP-Neuron (SCS)"
    proof = False

    def available(self) -> str | None:
        return None

    def refusal(self, problem: Problem) -> str | None:
        if problem.norm.p != "2" or problem.norm.out not in (None, "2"):
            return "for norm 2"
        if _order(problem) > LARGEST:
            return f"a matrix of order {_order(problem)} is too large for SCS here"
        return plain_relu_chain(problem)

    def rival(self, problem: Problem) -> str | None:  # noqa: ARG002
        return "slopes"

    def run(self, problem: Problem) -> Answer:
        *hidden, last = dense_weights(problem)
        inputs, neurons = problem.network.inputs, problem.network.neurons
        scale = float(np.prod([np.linalg.norm(w, 2) for w in (*hidden, last)]))  # SCS wants numbers of order 1
        lmi, diagonal = Inequality(inputs + neurons), np.arange(inputs)
        lmi.add(diagonal, diagonal, np.ones(inputs), 0)
        place = add_neurons(lmi, hidden, 0, 1)
        i, j = np.tril_indices(last.shape[1])
        lmi.add(place + i, place + j, -(last.T @ last)[i, j] / scale, -1)
        objective = np.zeros(lmi.count)
        objective[0] = 1.0
        value, seconds, remark = solve(lmi, objective)
        return Answer(float(np.sqrt(max(value * scale, 0.0))), seconds, remark)


class GeoLIP:
    """GeoLIP's dual program, the infinity norm and one output."""

    name = "GeoLIP (SCS)"
    proof = False

    def available(self) -> str | None:
        return None

    def refusal(self, problem: Problem) -> str | None:
        if problem.norm.p != "inf" or problem.norm.out is not None:
            return "for one output in norm inf"
        if problem.network.depth > 2:
            return "for one or two hidden layers"
        if _order(problem) > LARGEST:
            return f"a matrix of order {_order(problem)} is too large for SCS here"
        return plain_relu_chain(problem)

    def rival(self, problem: Problem) -> str | None:  # noqa: ARG002
        return "slopes"

    def run(self, problem: Problem) -> Answer:
        *hidden, last = dense_weights(problem)
        inputs = problem.network.inputs
        lmi = Inequality(_order(problem))
        lmi.add(np.array([0]), np.array([0]), np.ones(1), 0)
        for i in range(1, inputs + 1):
            lmi.add(np.array([i]), np.array([i]), np.ones(1), i)
        place = add_neurons(lmi, hidden, 1, inputs + 1)
        places = place + np.arange(last.shape[1])
        lmi.add(places, np.zeros_like(places), -0.5 * last[0], -1)
        objective = np.zeros(lmi.count)
        objective[: inputs + 1] = 1.0
        value, seconds, remark = solve(lmi, objective)
        return Answer(value, seconds, remark)
