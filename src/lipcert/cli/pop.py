"""`lipcert pop`: a polynomial problem in a file, a proved bound out."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Any

import click

from lipcert.cli.options import check_certificate_target, check_target, json_option
from lipcert.cli.show import console, facts, print_json
from lipcert.polynomial.files import ProblemFile, load_problem
from lipcert.polynomial.hierarchy.model import MomentModel
from lipcert.polynomial.hierarchy.plan import plan
from lipcert.polynomial.hierarchy.result import PolynomialResult
from lipcert.polynomial.hierarchy.solve import RELAXATIONS, relax, solve_problem
from lipcert.polynomial.hierarchy.terms import SPARSITIES
from lipcert.solver.conic.conic import CONIC_SOLVERS
from lipcert.solver.conic.sdpa_file import write_conic


@click.command("pop", short_help="Bound the optimum of the polynomial problem in FILE.")
@click.argument("file", metavar="FILE")
@click.option(
    "--order", type=int, metavar="D", help="Order of the hierarchy, or degree for krivine. Default: the least."
)
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
@click.option("--solver", default="auto", show_default=True, metavar="|".join(CONIC_SOLVERS), help="Conic solver.")
@click.option("--time-limit", type=float, default=inf, metavar="S", help="Seconds that the solver may take.")
@click.option(
    "--to", "target", metavar="FILE.dat-s", help="Write the relaxation (SDPA sparse format), do not solve it."
)
@click.option("--certificate", metavar="FILE.npz", help="Write the proof to a file that `lipcert verify` checks.")
@json_option
def pop_command(
    file: str,
    order: int | None,
    relaxation: str,
    sparsity: str | None,
    sparse_order: int | None,
    cuts: int,
    planning: bool,
    solver: str,
    time_limit: float,
    target: str | None,
    certificate: str | None,
    as_json: bool,
) -> int:
    """Bound the optimum of the polynomial problem in FILE (.pop or .json).

    The bound is proved for the coefficients in the file, whatever the solver said; without a proof there is none, and
    the exit code is 1.

    \b
    # disk.pop
    variables x y
    minimize x*y
    x^2 + y^2 <= 1
    \b
    lipcert pop disk.pop --order 1
    lipcert pop chain.pop --relaxation sparse --order 2 --json
    lipcert pop chain.pop --relaxation sparse --sparsity term-chordal --sparse-order 1
    lipcert pop chain.pop --order 2 --to chain.dat-s
    lipcert pop chain.pop --plan
    lipcert pop disk.pop --certificate proof.npz
    """
    check_certificate_target(certificate)
    read = load_problem(file)
    cliques = None if relaxation == "dense" else read.cliques
    bad = read.bad if relaxation == "nearly-sparse" else None
    if planning:
        planned = plan(read.problem, relaxation, order, cliques, bad, sparsity, sparse_order)
        print_json(planned.to_dict()) if as_json else console().print(planned.facts().text(), markup=False)
        return 0
    if target is not None:
        _write(target, relax(read.problem, relaxation, order, cliques, bad, sparsity, sparse_order), Path(file).name)
        return 0
    result = solve_problem(
        read.problem,
        relaxation,
        order,
        cliques,
        bad,
        sparsity=sparsity,
        sparse_order=sparse_order,
        cuts=cuts,
        solver=solver,
        time_limit=time_limit,
    )
    if as_json:
        print_json(_to_dict(result, read, relaxation))
    else:
        _show(result, read, relaxation, Path(file).name)
    if certificate is not None and result.certificate is not None:
        result.certificate.save(certificate)  # last: when it fails, the bound has been shown
    return 0 if result.certified else 1


def _write(target: str, model: MomentModel, name: str) -> None:
    """The relaxation as a file; its first line says how the optimum comes from the value of the program."""
    check_target(target)
    conic = model.conic()
    sign = "" if model.sense == "min" else "-"
    title = f"{name}: bound = {sign}(least value + {float(conic.objective[0])!r})"
    write_conic(target, conic.problem, title)
    problem = conic.problem
    blocks = f"{len(problem.orders)} matrices of order up to {max(problem.orders, default=0)}"
    console().print(f"{target}: {problem.columns} moments, {problem.rows} rows, {blocks}\n{title}")


def _to_dict(result: PolynomialResult, read: ProblemFile, relaxation: str) -> dict[str, Any]:
    names = read.problem.names or ()
    found = result.minimizer
    return {
        "bound": result.bound if result.certified else None,
        "sense": result.sense,
        "status": result.status,
        "relaxation": relaxation,
        "point": None if found is None else {name: float(v) for name, v in zip(names, found, strict=True)},
        "value": result.value,
        "solver": result.solver,
        "solver_status": result.solver_status,
        "notes": list(result.notes),
        "variables": read.problem.n,
        "seconds": round(result.seconds, 4),
    }


def _show(result: PolynomialResult, read: ProblemFile, relaxation: str, name: str) -> None:
    problem = read.problem
    side = "lower bound" if result.sense == "min" else "upper bound"
    table = facts()
    table.add_row(side, f"{result.bound:.9g}   proved" if result.certified else f"none   {result.status}")
    if result.minimizer is not None:
        names = problem.names or ()
        point = ", ".join(f"{n} = {v:.6g}" for n, v in list(zip(names, result.minimizer, strict=True))[:12])
        more = ", ..." if problem.n > 12 else ""
        table.add_row("value", f"{result.value:.9g}   at {point}{more}")
    constraints = f"{len(problem.inequalities)} inequalities, {len(problem.equalities)} equalities"
    table.add_row("problem", f"{name}   {problem.n} variables, {constraints}")
    table.add_row("solver", f"{result.solver}   {result.solver_status}")
    for note in result.notes:
        table.add_row("note", note)
    table.add_row("time", f"{result.seconds:.2f} s")
    out = console()
    out.print(f"[bold]{'Minimum' if result.sense == 'min' else 'Maximum'}[/bold] by the {relaxation} relaxation")
    out.print(table)
