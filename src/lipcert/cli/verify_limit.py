"""The time limit of `lipcert verify`, and what it says of a file that takes long."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from lipcert.budget.limit import within
from lipcert.cli.show import console, print_json
from lipcert.steps import Expired

LONG = 10.0  # seconds that a check is expected to take, from which on it says so though nobody set a limit


class _Estimate:
    """What the first check of a command expects to take; it is said once, before the check begins."""

    def __init__(self, limited: bool) -> None:
        self.limited, self.seconds = limited, None

    seconds: float | None

    def __call__(self, seconds: float, words: str) -> None:
        if self.seconds is None and (self.limited or seconds > LONG):
            click.echo(f"lipcert: about {_shown(seconds)} of work: {words}", err=True)
        self.seconds = seconds if self.seconds is None else self.seconds


def _shown(seconds: float) -> str:
    return "less than a second" if seconds < 1 else f"{seconds:,.0f} s"


def time_limited(command: Callable[..., int]) -> Callable[..., int]:
    """Add --time-limit to a command that checks: when it is over the command says so in one line, exit code 1."""

    @functools.wraps(command)
    def run(**arguments: Any) -> int:
        limit = arguments.pop("time_limit")
        estimate = _Estimate(limit is not None)
        try:
            with within(limit, estimate):
                return command(**arguments)
        except Expired as error:
            if arguments.get("as_json"):
                print_json({"proved": False, "reason": str(error), "estimate": estimate.seconds})
            else:
                console().print(str(error))
            return 1

    words = "Seconds to spend at most; then nothing is proved, exit code 1. Default: as long as the file takes."
    return click.option("--time-limit", type=float, metavar="S", help=words)(run)
