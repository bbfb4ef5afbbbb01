"""The time limit of `lipcert verify`, and its announcement of a check that takes long."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from lipcert.budget.budget import within
from lipcert.cli.show import console, print_json
from lipcert.steps import Expired

LONG = 10.0  # seconds: a check that is expected to take longer is announced, also without a time limit


class _Estimate:
    """The expected seconds of a command's first check, printed once, before the check begins."""

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
    """Add --time-limit to a command; when the limit is reached the command prints one line and exits with code 1."""

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

    words = "Seconds to spend at most; at the limit nothing is proved, exit code 1. Default: no limit."
    return click.option("--time-limit", type=float, metavar="S", help=words)(run)
