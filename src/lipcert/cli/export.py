"""`lipcert export`: write a relaxation as a semidefinite program for other solvers."""

from __future__ import annotations

import click

from lipcert.cli.options import OUTPUT, REGION, ReadingOptions, network_argument, options, reading_options
from lipcert.cli.paths import PROGRAM, OutputFile
from lipcert.cli.question import QuestionOptions, question_options
from lipcert.cli.show import console
from lipcert.errors import InputError
from lipcert.problem.problem import Problem
from lipcert.relaxation.model import write_sdpa
from lipcert.relaxation.specification import RELAXATIONS, build, plan_specification


@click.command("export", short_help="Write a relaxation of NETWORK as a semidefinite program.")
@network_argument
@question_options(*REGION, *OUTPUT)
@options(method={"default": "hr2", "help": f"One of {', '.join(RELAXATIONS)}."})
@click.option(
    "--to",
    "target",
    type=OutputFile(PROGRAM),
    required=True,
    metavar="FILE.dat-s",
    help="Where to write it (SDPA sparse format).",
)
@reading_options
def export_command(network: str, question: QuestionOptions, method: str, target: str, reading: ReadingOptions) -> None:
    """Write the semidefinite program of a relaxation of NETWORK for other solvers (CSDP, SDPA, ...).

    \b
    lipcert export net.npz --radius 0.1 --output 3 --method hr2 --to problem.dat-s
    """
    method = method.lower()
    net = reading.network(network)
    asked = Problem.of(net, question.region(net.inputs)[0], question.choice, question.norm)
    if asked.whole_map:
        raise InputError("export is for one output; give --output K or --versus I J")
    relaxation = build(asked, plan_specification(asked, method))
    write_sdpa(target, relaxation, f"lipcert {method}, {asked.output}, network {net.sha256[:16]}")
    problem = relaxation.problem
    console().print(f"{target}: {method}, one matrix of order {problem.size}, {problem.rows} rows")
