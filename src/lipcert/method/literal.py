"""The paper's estimators as it states them, solved by general conic solvers [CLMP20]."""

from __future__ import annotations

import math

from lipcert.budget import Budget
from lipcert.method.base import Method
from lipcert.method.bracket import Bracket
from lipcert.problem.problem import Problem
from lipcert.proof.certificate import Certificate
from lipcert.proof.polynomials import refusal as literal_refusal
from lipcert.search.progress import Status
from lipcert.solver import CONIC_SOLVERS, ConicStatus
from lipcert.steps import DENSE, RATES


class Literal(Method):
    """One estimator. Its own bound is the answer even where a cheap bound is smaller; a note says so then."""

    solvers = CONIC_SOLVERS
    for_many = False

    def __init__(self, name: str, summary: str, only: bool = True) -> None:
        self.name, self.summary = name, summary
        self.only = only  # whether the name means this form; shor and hr2 have a faster one of the same bound

    def refusal(self, problem: Problem) -> str | None:
        return literal_refusal(problem, self.name)

    def cost(self, problem: Problem) -> float:
        """General solvers vectorise moment matrices: the cube of their entries."""
        order = 1 + problem.network.inputs + problem.network.neurons
        return float(order) ** 6 / RATES[DENSE]

    def run(self, problem: Problem, bracket: Bracket, budget: Budget) -> None:
        from lipcert.polynomial.lcep.methods import literal_bound  # here, so that importing lipcert stays fast

        bracket.enter(f"{self.name}, literal")
        upper, info = literal_bound(problem, self.name, solver=bracket.settings.solver, budget=budget)
        bracket.note(f"{info.solver}: {info.status}")
        self.say_how(info.status, bracket, budget)
        if not math.isfinite(upper) or info.proof is None:
            bracket.note(f"{self.name} proved nothing; the bound was proved without it")
            return
        if bracket.certificate is not None and bracket.upper < upper:
            bracket.note(f"{bracket.certificate.method} proves {bracket.upper:.6g}, which is less")
        bracket.certificate = Certificate.of(problem, info.proof, upper)
        bracket.report()

    @staticmethod
    def say_how(ended: str, bracket: Bracket, budget: Budget) -> None:
        """A solver that stopped before its optimum has not finished: at a limit of ours, or at one of its own."""
        limits = (ConicStatus.TIME_LIMIT.value, ConicStatus.ITERATION_LIMIT.value)
        if ended == limits[0] or (ended in limits and budget.repeatable):
            bracket.out_of_budget(budget)
        elif ended not in (ConicStatus.OPTIMAL.value, ConicStatus.NEARLY_OPTIMAL.value):
            bracket.status = Status.OPEN


LITERAL: tuple[Literal, ...] = (
    Literal("shor", "the first-order moment relaxation", only=False),
    Literal("hr1", "the paper's heuristic relaxation of order 1, as stated"),
    Literal("hr2", "the paper's heuristic relaxation of order 2", only=False),
    Literal("hr3", "the paper's heuristic relaxation of order 3, as stated"),
    Literal("lipopt3", "LipOpt, products of three factors: a linear program"),
    Literal("lipopt4", "LipOpt, products of four factors: a linear program"),
    Literal("lifting", "products of slopes as variables: two hidden layers, tiny networks"),
)
