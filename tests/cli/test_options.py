"""The options of every verb against the keywords of its Python function: the same names, the same defaults."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any

import click
import pytest

import lipcert
from lipcert.cli.app import COMMANDS
from lipcert.cli.options import OPTIONS, flag_of
from lipcert.search.settings import Settings

PLACES = {"center", "radius", "clip", "vnnlib", "everywhere", "ball", "halfspaces"}  # together they are the region
FILES = {"certificate", "csv", "npz", "plot", "save", "as_json"}
READING = {"onnx_output", "onnx_batch", "normalize"}
DATA = {"data", "labels", "label_column", "scale", "first"}
TYPED = {"network", "versus", "verbose", *FILES, *READING}  # what a user types and Python has in another form
RENAMED = {"out": "folder", "search": "no_point", "C": "c"}
LOOP = {"output", "output_norm", "input_weights", "output_weights", "inputs", "literal"}  # settled by the loop


def command(verb: str) -> click.Command:
    found = getattr(import_module(f"lipcert.cli.{verb}"), f"{verb}_command")
    assert isinstance(found, click.Command)
    return found


def keywords(function: Callable[..., Any]) -> dict[str, Any]:
    """The keywords of a function with their defaults, by the names that the command line has for them."""
    kinds = inspect.signature(function).parameters.values()
    named = {p.name: p.default for p in kinds if p.kind is inspect.Parameter.KEYWORD_ONLY and p.name != "on_progress"}
    return {RENAMED.get(name, name): default for name, default in named.items()}


def defaults(verb: str) -> dict[str, Any]:
    """What a verb receives when a user types none of its options; hidden options are those that it refuses."""
    found = command(verb)
    values = found.make_context(verb, [], resilient_parsing=True).params
    hidden = {p.name for p in found.params if isinstance(p, click.Option) and p.hidden}
    return {name: value for name, value in values.items() if name not in hidden}


@pytest.mark.parametrize(
    ("verb", "function", "typed", "elsewhere"),
    [
        ("bound", lipcert.bound, TYPED | PLACES, set[str]()),
        ("cells", lipcert.partition, TYPED | PLACES | {"adaptive", "axes", "at"}, set[str]()),
        ("jacobian", lipcert.jacobian, TYPED | PLACES, set[str]()),
        ("certify", lipcert.certify, TYPED | DATA, {"network_file"}),
        ("pop", lipcert.minimize, TYPED | {"file", "planning", "target"}, {"lower", "upper", "cliques", "bad"}),
    ],
)
def test_a_verb_has_the_keywords_of_its_function(
    verb: str, function: Callable[..., Any], typed: set[str], elsewhere: set[str]
) -> None:
    named, found = keywords(function), defaults(verb)
    assert found.keys() - typed == named.keys() - elsewhere - typed
    for name in named.keys() & found.keys() - {"no_point", "radius"}:
        assert found[name] == named[name] or (found[name] is False and named[name] is None), name


def test_a_loop_is_bounded_with_the_settings_of_bound() -> None:
    found = defaults("loop").keys() - TYPED - PLACES - {"a", "b", "largest"}
    named = keywords(lipcert.contraction) | keywords(lipcert.bound)
    assert found == named.keys() - LOOP


def test_settings_are_keywords_of_bound() -> None:
    """Their defaults are the same, but for a gap of 0, which settings round up, and for workers, which bound counts."""
    named, values = keywords(lipcert.bound), vars(Settings())
    assert {name for name, value in values.items() if named[name] != value} == {"gap", "workers"}
    assert (named["gap"], named["workers"]) == (0.0, None)


def test_a_shared_option_is_declared_once() -> None:
    """No verb declares an option of the table again, and what a keyword is called is the same for all verbs."""
    for verb in COMMANDS:
        for param in command(verb).params:
            if isinstance(param, click.Option) and param.name in OPTIONS and verb != "certify":
                assert param.opts[0] == flag_of(param.name).split("/")[0], (verb, param.name)
