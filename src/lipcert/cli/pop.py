"""`lipcert pop`: a polynomial problem in, a proved bound on its optimum and a feasible point out."""

from __future__ import annotations

import math
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from lipcert.chart.numbers import counted
from lipcert.cli.live import LiveLine
from lipcert.cli.options import options, time_left
from lipcert.cli.paths import INPUT, PROBLEM, PROGRAM, OutputFile
from lipcert.cli.show import console, print_facts, print_json
from lipcert.errors import InputError
from lipcert.files import write_bytes
from lipcert.polynomial.files import load_problem
from lipcert.polynomial.hierarchy.bracket import solve_bracket
from lipcert.polynomial.hierarchy.model import MomentModel
from lipcert.polynomial.hierarchy.plan import plan
from lipcert.polynomial.hierarchy.result import GAP, PolynomialResult
from lipcert.polynomial.hierarchy.solve import (
    AUTO,
    RELAXATIONS,
    PolynomialOptions,
    PolynomialProgress,
    Splitting,
    relaxation_of,
)
from lipcert.polynomial.hierarchy.terms import SPARSITIES
from lipcert.polynomial.language import show_problem
from lipcert.polynomial.problem import PolynomialProblem
from lipcert.solver.conic.conic import CONIC_SOLVERS
from lipcert.solver.conic.sdpa_backend import write_conic


@click.command("pop", short_help="Bracket the optimum of the polynomial problem in FILE.")
@click.argument("file", metavar="FILE", type=INPUT)
@click.option(
    "--relaxation", default="dense", show_default=True, metavar="|".join(RELAXATIONS), help="Which hierarchy to use."
)
@click.option(
    "--sparsity",
    metavar="|".join(SPARSITIES),
    help="How moment matrices are split. Default: term, which changes no bound unless --sparse-order is given.",
)
@click.option("--sparse-order", type=int, metavar="S", help="Steps of term sparsity. Default: until nothing changes.")
@click.option("--cuts", type=int, default=0, metavar="R", help="Rounds of triangle inequalities. Default: none.")
@click.option("--plan", "planning", is_flag=True, help="Show what this order and the next ones cost, solve nothing.")
@click.option(
    "--to",
    "target",
    type=OutputFile(PROGRAM, PROBLEM),
    metavar="FILE",
    help="Write, do not solve: the relaxation as .dat-s (SDPA) or the problem as .pop.",
)
@options("certificate")
@click.option(
    "--order",
    metavar="D|auto",
    help="Order of the hierarchy, or degree for krivine; auto: higher ones until the gap is closed. Default: the "
    "least, and higher ones where a gap is left and they are cheap.",
)
@options(
    *("gap", "time_limit", "solver", "seed"),
    gap={"default": GAP, "help": "Relative gap that counts as closed."},
    time_limit={"default": inf, "show_default": False},
    solver={"metavar": "|".join(CONIC_SOLVERS), "help": "Conic solver."},
    seed={"help": "Seed of the search for points."},
)
@click.option("--no-point", is_flag=True, help="Look for no feasible point, prove a bound only.")
@options("as_json")
def pop_command(file: str, target: str | None, certificate: str | None, as_json: bool, **given: Any) -> int:
    """Bracket the optimum of the polynomial problem in FILE (.pop, .json, .gms, .in).

    The bound is proved for the coefficients in the file, whatever the solver said. On its other side is the value of
    the best point found, proved as well where the point satisfies every constraint exactly. Exit code 0 when a bound
    was proved, or that nothing is feasible; 1 when nothing was; 2 on bad input. At the time limit, or on Ctrl-C, what
    is proved so far is printed. docs/polynomials.md describes the language.

    \b
    # disk.pop
    minimize x y
    x^2 + y^2 <= 1
    \b
    lipcert pop disk.pop
    lipcert pop chain.pop --relaxation sparse --order 2 --json
    lipcert pop chain.pop --relaxation sparse --sparsity term-chordal --sparse-order 1
    lipcert pop model.gms --order auto --time-limit 60
    lipcert pop chain.pop --order 2 --to chain.dat-s
    lipcert pop chain.pop --plan
    lipcert pop disk.pop --certificate proof.npz
    """
    settings, planning = _settings(given), given["planning"]
    settings.check()
    read = load_problem(file)
    relaxation = settings.relaxation
    cliques = None if relaxation == "dense" else read.cliques
    bad = read.bad if relaxation == "nearly-sparse" else None
    settings = replace(settings, cliques=cliques, bad=bad, start=read.start)
    settings = replace(settings, time_limit=time_left(settings.time_limit))
    if planning:
        by = settings.splitting
        planned = plan(read.problem, relaxation, settings.number, cliques, bad, by.sparsity, by.sparse_order)
        print_json(planned.to_dict()) if as_json else console().print(planned.facts().text(), markup=False)
        return 0
    if target is not None:
        _write(target, read.problem, settings, Path(file).name)
        return 0
    with _Line(read.problem.sense) as line:
        result = solve_bracket(read.problem, replace(settings, on_progress=line.update))
    result = replace(result, notes=(*result.notes, *read.notes))
    if as_json:
        print_json(result.to_dict())
    else:
        _show(result, read.problem, Path(file).name)
    if certificate is not None:
        _keep(result, certificate)  # after printing, so that a failure to write loses no bound
    return 0 if result.certified else 1


def _settings(given: dict[str, Any]) -> PolynomialOptions:
    """The settings of the options, as `minimize` has them in Python."""
    if given["seed"] < 0:
        raise InputError(f"--seed {given['seed']}: a seed is a number >= 0")
    order = given["order"]
    if order is not None and order != AUTO:
        if not order.removeprefix("-").isdecimal():
            raise InputError(f"--order {order}: give a whole number, or auto")
        order = int(order)
    splitting = Splitting(given["sparsity"], given["sparse_order"], given["cuts"])
    same = {name: given[name] for name in ("relaxation", "gap", "time_limit", "solver", "seed")}
    return PolynomialOptions(order=order, splitting=splitting, search=not given["no_point"], **same)


class _Line(LiveLine):
    """Shows time, bracket and stage."""

    def __init__(self, sense: str) -> None:
        super().__init__()
        self._least = sense == "min"
        self._last = PolynomialProgress(0.0, -inf if self._least else inf, None, "starting")

    def update(self, standing: PolynomialProgress) -> None:
        self._last = standing

    def line(self) -> str:
        s = self._last
        bound = "?" if math.isinf(s.bound) else f"{s.bound:.6g}"
        value = "?" if s.value is None else f"{s.value:.6g}"
        return f"{self.seconds:6.1f} s   bound {bound}   value {value}   {s.stage}"


def _keep(result: PolynomialResult, target: str) -> None:
    if result.certificate is not None:
        result.certificate.save(target)
    else:
        why = "the proof that nothing is feasible has no file" if result.empty else "nothing was proved"
        click.echo(f"lipcert: {target}: not written, {why}", err=True)


def _write(target: str, problem: PolynomialProblem, settings: PolynomialOptions, name: str) -> None:
    """Write the relaxation or the problem to a file; the ending says which."""
    if target.lower().endswith(PROBLEM.ending):
        write_bytes(target, show_problem(problem).encode())
        about = f"{counted(problem.n, 'variable')}, {counted(len(problem.polynomials) - 1, 'constraint')}"
        console().print(f"{escape(target)}: {about}")
        return
    if settings.order == AUTO:
        raise InputError("--to writes one relaxation: give --order as a number, or leave it out for the least")
    _write_model(target, relaxation_of(problem, settings), name)


def _write_model(target: str, model: MomentModel, name: str) -> None:
    """Write the relaxation; the first line of the file says how the bound follows from the value of the program."""
    conic = model.conic()
    sign = "" if model.sense == "min" else "-"
    title = f"{name}: bound = {sign}(least value + {float(conic.objective[0])!r})"
    write_conic(target, conic.problem, title)
    problem = conic.problem
    blocks = f"{counted(len(problem.orders), 'matrix', 'matrices')} of order up to {max(problem.orders, default=0)}"
    sizes = f"{counted(problem.columns, 'moment')}, {counted(problem.rows, 'row')}"
    console().print(f"{target}: {sizes}, {blocks}\n{title}")


def _show(result: PolynomialResult, problem: PolynomialProblem, name: str) -> None:
    inequalities = counted(len(problem.inequalities), "inequality", "inequalities")
    constraints = f"{inequalities}, {counted(len(problem.equalities), 'equality', 'equalities')}"
    found = result.facts()
    about = f"{name}   {counted(problem.n, 'variable')}, {constraints}"
    print_facts(found.title, [("problem", about), *found.rows])
