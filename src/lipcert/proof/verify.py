"""verify(): a certificate checked against a network, without any solver."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from lipcert.errors import FileFormatError, InputError
from lipcert.files import check_readable
from lipcert.files.archive import Archive, holds
from lipcert.files.numbers import LARGEST_WHOLE, one_real, one_whole, word
from lipcert.problem import question
from lipcert.problem.network import Network
from lipcert.problem.question import LargestNorm, Question
from lipcert.problem.region import Everywhere
from lipcert.proof import collapsed, cost, encoding, preorder, sharpened, slopes, stated, tree
from lipcert.proof.arithmetic import Arithmetic
from lipcert.proof.cases import read_cases
from lipcert.proof.certificate import CERTIFICATE_VERSION, Certificate, Proof
from lipcert.proof.relaxed import Multipliers
from lipcert.proof.verification import Provable, Verification
from lipcert.readers.given import TorchModule, network_of
from lipcert.relaxation.specification import RELAXATIONS
from lipcert.steps import Expired, expect

_KINDS = (tree, preorder, slopes, stated)
_PARTS = ("certificate|proof|method|upper|cases", question.NAMES, question.WORDS, collapsed.NAME, sharpened.NAMES)
_NAMES = re.compile("|".join((*_PARTS, *(kind.NAMES for kind in _KINDS))))
_TEXTS = frozenset({"proof", "method"}).union(question.TEXTS, *(kind.TEXTS for kind in _KINDS))


# Every kind of file by the array that it alone has, and the function that reads it, loaded when such a file is there.
_READERS = {
    "certificate": "lipcert.proof.verify:load_certificate",
    "margins": "lipcert.proof.margins:load_margins",
    "cells": "lipcert.proof.partition:load_partition",
    "jacobian": "lipcert.proof.jacobian:load_jacobian",
    "union": "lipcert.proof.union:load_union",
    "polynomial": "lipcert.polynomial.certificates.certificate:load_polynomial",
}


def verify(
    certificate: Any,
    net: Network | str | os.PathLike[str] | TorchModule | Any,
    *,
    exact: bool = False,
    time_limit: float | None = None,
) -> Verification:
    """Check a proof without any solver: what does it prove about this network?

    certificate: the `certificate` of any result, the result itself, or the path of a file that one of them wrote: by
        `bound`, on one region or several, `partition`, `jacobian`, `certify --refine` or `minimize`.
    net: the network that it is about, or the path of its file, or a torch module. For a certificate of a polynomial
        problem: the problem.
    exact: prove it a second time in ball arithmetic (extra `exact`: python-flint); both checks must prove the claim.
    time_limit: seconds, after which nothing is proved; without it the check takes what the file needs.

    Rows are rebuilt from the network, so nothing that the file says about them is believed; the hash, the signs of the
    multipliers and the semidefiniteness are checked, and the bound is computed again with outward rounding. The answer
    has the statement of the certificate: the question in full, in words. What has to be trusted is listed in
    docs/trust.md.
    """
    kept = provable(certificate)
    if time_limit is not None:
        from lipcert.budget.budget import within  # here: a checker has no clock

        try:
            with within(time_limit):
                return verify(kept, net, exact=exact)
        except Expired as error:
            claim = getattr(kept, "claim", np.nan)  # of one number; files with many have none for all of them
            return Verification(False, np.inf, claim, str(error), kept.statement)
    if not _about_network(kept):
        found: Verification = kept.verify(net)  # type: ignore[arg-type]
        return found
    region = getattr(kept, "region", None)
    shape = None if region is None or isinstance(region, Everywhere) else region.shape
    network = network_of(net, shape)
    if isinstance(kept, Certificate):
        expect(cost.seconds(network, kept.proof), cost.words(kept.proof))
    return kept.verify(network, exact)


def provable(given: Any) -> Provable:
    """The certificate that something is, has, or is the path of; refused in words where there is none."""
    if isinstance(given, str | os.PathLike):
        return load_proof(given)
    for candidate in (given, getattr(given, "certificate", None)):
        if hasattr(candidate, "verify") and hasattr(candidate, "statement"):
            return cast(Provable, candidate)
    raise InputError(
        f"verify: {type(given).__name__} is no certificate; give a result, its certificate, or the path of a file"
    )


def _about_network(kept: Provable) -> bool:
    return kept.statement.network is not None


def kind_of(path: str | os.PathLike[str]) -> str | None:
    """Which kind of certificate a file holds, by the names of its arrays alone; None where it holds none."""
    return next((kind for kind in _READERS if holds(path, kind)), None)


def load_proof(path: str | os.PathLike[str]) -> Provable:
    """Read a certificate of any kind; nothing in it is believed before `verify`."""
    module, _, function = _READERS[kind_of(path) or "certificate"].partition(":")
    kept: Provable = getattr(importlib.import_module(module), function)(path)
    return kept


def load_certificate(path: str | os.PathLike[str]) -> Certificate:
    """Read a certificate; nothing in it is believed before `verify`."""
    file = check_readable(path)
    if file.suffix.lower() != ".npz":
        raise FileFormatError(f"{file}: certificates are .npz files, as written by --certificate")
    try:
        return read_certificate(file)
    except InputError as error:
        network = "a network, not a certificate; give the file that --certificate wrote"
        raise FileFormatError(f"{file}: {network if _holds_network(file) else error}") from None


def _holds_network(file: Path) -> bool:
    """Whether a file looks like a network."""
    return holds(file, "W1") or holds(file, "W1_data") or holds(file, "W1_kernel")


def read_certificate(file: Path | IO[bytes]) -> Certificate:
    """A certificate from a file; raises InputError without its name."""
    return _parse(Archive(file, _NAMES, content="a certificate", texts=_TEXTS))


def _parse(arrays: Mapping[str, Any]) -> Certificate:
    if "certificate" not in arrays:
        raise FileFormatError("not a certificate; write one with lipcert bound --certificate")
    version = one_whole(arrays, "certificate", 0, LARGEST_WHOLE)
    if version != CERTIFICATE_VERSION:
        raise FileFormatError(f"certificate version {version}; this lipcert reads version {CERTIFICATE_VERSION}")
    q, upper = Question.read(arrays, LargestNorm()), one_real(arrays, "upper", -np.inf, np.inf)
    proof = _sharpened(arrays, word(arrays, "method"))
    found = Certificate(q.network, q.region, q.norm, q.c, proof, upper, q.coordinate, upper, q.frame)
    found.statement.compare(arrays)
    return found


def _sharpened(arrays: Mapping[str, Any], method: str) -> Proof:
    if not any(re.fullmatch(sharpened.NAMES, name) for name in arrays):
        return _proof(arrays, method)
    return sharpened.Sharpened(_proof(arrays, method), sharpened.read_sharper(arrays))


def _proof(arrays: Mapping[str, Any], method: str) -> Proof:
    if collapsed.NAME not in arrays:
        return _plain_proof(arrays, method)
    one_whole(arrays, collapsed.NAME, 1, 1)  # it says that the proof is about the collapsed problem
    return collapsed.Within(_plain_proof(arrays, method))


def _plain_proof(arrays: Mapping[str, Any], method: str) -> Proof:
    kind = word(arrays, "proof")
    if kind in ("multipliers", "cases") and method not in RELAXATIONS:
        raise FileFormatError(f"the certificate names an unknown method {method!r}; upgrade lipcert")
    match kind:
        case "arithmetic":
            return Arithmetic(method)
        case "multipliers":
            specifications = encoding.decode_specifications(arrays, method)
            if len(specifications) != 1 or specifications[0] is None:
                raise FileFormatError("the proof must say what was built, once")
            return Multipliers(specifications[0], *encoding.decode_numbers(arrays, 1)[0])
        case "cases":
            return read_cases(arrays, method)
        case "tree" if "tree" not in arrays:
            return tree.read_tree(arrays)
        case "tree" | "patterns":
            return preorder.read_preorder(arrays)
        case "slopes":
            return slopes.read_slopes(arrays)
        case "literal" | "lipopt":
            return stated.read_stated(kind, arrays, method)
        case _:
            raise FileFormatError(f"an unknown kind of proof, {kind!r}; upgrade lipcert")
