"""The command line: it parses, calls the library and prints. Results go to stdout, progress and errors to stderr.

Exit codes: 0 success, 1 not certified, 2 bad input, 3 a bug of ours, 130 interrupted before anything was proved.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Sequence
from importlib import import_module

import click

from lipcert._version import __version__
from lipcert.errors import InputError, LipcertError

# Every command is in the module of its name; the value is its line in the list of commands.
COMMANDS = {
    "bound": "Bracket the Lipschitz constant of one output of NETWORK.",
    "cells": "Constants on all cells of a box, a grid or an adaptive partition.",
    "certify": "Which inputs of DATA keep their class within a radius?",
    "demo": "Bound a small digit classifier around a few images.",
    "doctor": "Check this installation: versions, solvers, a self-test, speed.",
    "export": "Write a relaxation of NETWORK as a semidefinite program.",
    "info": "Show the layers, sizes and content hash of NETWORK.",
    "jacobian": "Bounds and signs of every entry of the Jacobian on a region.",
    "loop": "Bound the contraction constant of x+ = A x + B NETWORK(C x).",
    "norms": "Prove the operator norms of all layers of NETWORK, and their product.",
    "pop": "Bracket the optimum of the polynomial problem in FILE.",
    "report": "Write an HTML page about the certify job in DIR.",
    "reproduce": "Compute TARGET of the paper again and put the published numbers beside.",
    "verify": "Check a proof, or all proofs of a certify job, against a network.",
}


class _Lazy(click.Group):
    """A group that imports a command when it is called; --help and --version import none."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        try:
            from lipcert.cli.paths import guarded  # here, so that --help stays fast

            command = getattr(import_module(f"lipcert.cli.{cmd_name}"), f"{cmd_name}_command")
            assert isinstance(command, click.Command)
            return guarded(command)
        except KeyboardInterrupt:
            raise click.Abort from None  # for a KeyboardInterrupt click prints an empty line first

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        from difflib import get_close_matches  # here, because only a mistyped command needs it

        near = [] if args[0] in COMMANDS else get_close_matches(args[0].lower(), COMMANDS, 1)
        if near:
            ctx.fail(f"No such command {args[0]!r}; did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([*sorted(COMMANDS.items())])


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="lipcert", message="%(prog)s %(version)s")
def cli() -> None:
    """Certified upper bounds on the Lipschitz constants of neural networks.

    \b
    lipcert demo                                       see it work on data that ships with it
    lipcert info model.onnx                            what is in a network file
    lipcert norms model.onnx                           proved norms of its layers, and their product
    lipcert bound model.onnx --radius 0.1 --output 3   a proved bracket [lower, upper]
    lipcert verify proof.npz --network model.onnx      check a proof without any solver
    lipcert cells model.onnx --radius 1 --cells 40     a proved constant on every cell of a box
    lipcert jacobian model.onnx --radius 0.1           bounds and signs of all partial derivatives
    lipcert certify model.onnx images.npy --radius 0.1 which inputs keep their class
    lipcert verify DIR                                 the folder of a certify job proved again
    lipcert loop model.onnx --a A.csv --b B.csv ...    whether a closed loop contracts
    lipcert report DIR                                 the folder of a certify job as a page
    lipcert export model.npz ... --to sdp.dat-s        the semidefinite program for other solvers
    lipcert pop problem.pop                            any polynomial problem, bounded
    lipcert reproduce all --quick                      the paper's tables and figures, beside the published
    lipcert doctor                                     whether this installation works

    Exit codes: 0 success, 1 nothing or not all was proved, 2 bad input, 3 a bug, 130 interrupted.
    SIGTERM (timeout, SLURM, docker stop) does what Ctrl-C does: what is proved by then is printed and kept.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit; no traceback reaches a user (LIPCERT_DEBUG=1 shows it)."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # users read our messages, not the warnings of libraries
    _mend_streams()
    try:
        code = cli.main(args=arguments, prog_name="lipcert", standalone_mode=False, obj=time.monotonic())
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        return _say(error.format_message(), 2, prefix="")
    except click.ClickException as error:
        return _say(_one_line(error), 2)
    except InputError as error:
        return _say(error.typed, 2)
    except (KeyboardInterrupt, click.Abort):
        return _say("interrupted", 130)
    except (BrokenPipeError, SystemExit):  # the reader of stdout has left; click turns that into SystemExit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _say(f"cannot write the result ({error.strerror or error})", 2)
    except MemoryError:
        return _say("out of memory: this is too large for this machine", 2)
    except LipcertError as error:
        return _say(str(error), 3)
    except Exception as error:
        if os.environ.get("LIPCERT_DEBUG"):
            raise
        return _say(f"internal error ({type(error).__name__}: {error}); set LIPCERT_DEBUG=1 to see where", 3)
    return code if isinstance(code, int) else 0


def _mend_streams() -> None:
    """Discard output to a stream that the caller closed; Python has None for such a stream."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - for the life of the process


def _one_line(error: click.ClickException) -> str:
    message = error.format_message().strip().replace("\n", " ")
    context = getattr(error, "ctx", None)
    where = f" (see '{context.command_path} --help')" if context is not None else ""
    return f"{message.rstrip('.')}{where}"


def _say(message: str, code: int, prefix: str = "lipcert: ") -> int:
    text = message if not prefix else " ".join(message.split())
    print(f"{prefix}{text}", file=sys.stderr)  # noqa: T201 - the one place that speaks on stderr
    return code
