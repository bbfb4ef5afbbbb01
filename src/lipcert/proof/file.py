"""Files of certificates: one format for every kind, and the names of the files that version 1.0.0 wrote.

Sizes, kinds and ranges of all arrays are checked before anything is computed from them (`files.archive`,
`files.numbers`); nothing in a file is believed before its certificate is verified.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, TypeVar, overload

import numpy as np

from lipcert.errors import FileFormatError, InputError
from lipcert.files import check_readable
from lipcert.files.archive import Archive, Expected, holds
from lipcert.files.boundary import located
from lipcert.files.numbers import LARGEST_WHOLE, one_real, one_whole, whole, word
from lipcert.problem import question
from lipcert.problem.question import LargestNorm, Question
from lipcert.proof import channels, encoding, preorder, sharpened, slopes, tree, ways
from lipcert.proof.arithmetic import Arithmetic
from lipcert.proof.cases import read_cases
from lipcert.proof.certificate import VERSION, Certificate, Envelope, Proof
from lipcert.proof.multipliers import Multipliers
from lipcert.proof.ways import read_way, with_way
from lipcert.relaxation.specification import RELAXATIONS

E = TypeVar("E", bound=Envelope)

# The function that reads each kind, loaded when such a file is there.
KINDS = {
    "constant": "lipcert.proof.file:read_constant",
    "margins": "lipcert.proof.margins:read_margins",
    "cells": "lipcert.proof.partition:read_cells",
    "jacobian": "lipcert.proof.jacobian:read_jacobian",
    "union": "lipcert.proof.union:read_union",
    "polynomial": "lipcert.polynomial.certificates.certificate:read_polynomial",
}
WORDS = {
    "constant": "a constant",
    "margins": "margins",
    "cells": "cells",
    "jacobian": "a Jacobian",
    "union": "several regions",
    "polynomial": "a polynomial problem",
}
# Version 1.0.0 had a format for each kind: the array that told the kind, the version in it, and the kind today. The
# arrays of claims have kept their names, and `preorder` reads the trees of that version.
OF_1_0_0 = {
    "certificate": (2, "constant"),
    "margins": (2, "margins"),
    "cells": (1, "cells"),
    "jacobian": (1, "jacobian"),
    "union": (1, "union"),
    "polynomial": (1, "polynomial"),
}
# The arrays of proofs and claims by kind. They stand here because a file is read without the code of other kinds.
CONTENT = {
    "constant": "proof|method|upper|cases",  # and the names of each proof
    "margins": "keep|claim",
    "cells": "of_grid|claims",  # and the names of a tree
    "jacobian": "points|lower|upper|seen_least|seen_most|least_at|most_at",  # and the names of a tree
    "union": r"regions|part_\d{1,4}",
    "polynomial": "problem|sense|bound|cut",  # and the names of a relaxation as stated
}
# The arrays of a relaxation that is solved as the paper states it.
STATED = (
    "literal_form|krivine_(degree|index|numbers)|"
    "sos_(basis|blocks|cuts|mix|equalities|inequalities|rules|factors|products|families|scale|factor|index|numbers)"
)
_PARTS = (tree, preorder, slopes, channels, ways)
_QUESTION = ("kind", *OF_1_0_0, question.NAMES, question.WORDS)
_PROOFS = (sharpened.COLLAPSED, sharpened.NAMES, STATED, *(part.NAMES for part in _PARTS))
_NAMES = re.compile("|".join((*_QUESTION, *_PROOFS, *CONTENT.values())))
_TEXTS = frozenset({"kind", "proof", "method", "problem", "sense", "literal_form"}).union(
    question.TEXTS, *(part.TEXTS for part in _PARTS)
)
# The module that reads proofs of the literal relaxations of [CLMP20]. It belongs to a room that builds on this one, so
# it is imported by its name, and only for a file that holds such a proof.
LITERAL_READER = "lipcert.polynomial.lcep.literal"
_ADVICE = "write the certificate again"


def load_proof(path: str | os.PathLike[str]) -> Envelope:
    """Read a certificate of any kind; nothing in it is believed before `verify`."""
    found: Envelope = _load(path, Envelope)
    return found


@overload
def load_certificate(path: str | os.PathLike[str]) -> Certificate: ...


@overload
def load_certificate(path: str | os.PathLike[str], kind: type[E]) -> E: ...


def load_certificate(path: str | os.PathLike[str], kind: type[Any] = Certificate) -> Any:
    """Read a certificate of one kind, by its class; a file of another kind is refused."""
    return _load(path, kind)


def _load(path: str | os.PathLike[str], kind: type[Any]) -> Any:
    file = check_readable(path)
    with located(file):
        if file.suffix.lower() != ".npz":
            raise FileFormatError("certificates are .npz files, as written by --certificate")
        try:
            return read_certificate(file, kind)
        except InputError:
            if any(holds(path, name) for name in ("W1", "W1_data", "W1_kernel")):
                words = "a network, not a certificate; give the file that --certificate wrote"
                raise FileFormatError(words) from None
            raise


def read_certificate(file: Path | IO[bytes], wanted: type[Any]) -> Any:
    """A certificate from a file; the kind is compared before anything else is read."""
    arrays = Archive(file, Expected(_NAMES, "a certificate", _ADVICE, _TEXTS))
    kind = kind_of(arrays)
    if kind != getattr(wanted, "kind", kind):
        raise FileFormatError(f"a certificate of {WORDS[kind]}; a certificate of {WORDS[wanted.kind]} is needed")
    module, _, function = KINDS[kind].partition(":")
    found: Envelope = getattr(importlib.import_module(module), function)(arrays)
    found.statement.compare(arrays)
    return found


def kind_of(arrays: Mapping[str, Any]) -> str:
    """Which kind of certificate these arrays are; refused where they are none, or of an unknown version."""
    if "kind" in arrays:
        kind, version = word(arrays, "kind"), one_whole(arrays, "certificate", 0, LARGEST_WHOLE)
        if version != VERSION:
            raise FileFormatError(f"certificate version {version}; this lipcert reads version {VERSION}")
        if kind not in KINDS:
            raise FileFormatError(f"an unknown kind of certificate, {kind!r}; upgrade lipcert")
        if any(name in arrays for name in OF_1_0_0 if name != "certificate"):
            raise FileFormatError("the file says twice which kind of certificate it is")
        return kind
    name = next((name for name in OF_1_0_0 if name in arrays), None)
    if name is None:
        raise FileFormatError("not a certificate; write one with lipcert bound --certificate")
    version, kind = OF_1_0_0[name]
    shape = (2,) if kind == "union" else ()  # a file of several regions has the version and the number of regions
    found = int(whole(arrays, name, shape, 0, LARGEST_WHOLE).reshape(-1)[0])
    if found != version:
        raise FileFormatError(f"{name} of version {found}; this lipcert reads version {version} of it, and {VERSION}")
    return kind


def read_constant(arrays: Mapping[str, Any]) -> Certificate:
    """A certificate of one constant on one region."""
    statement, upper = Question.read(arrays, LargestNorm()), one_real(arrays, "upper", -np.inf, np.inf)
    proof = with_way(read_way(arrays), _sharpened(arrays, word(arrays, "method")))
    return Certificate(statement, proof, upper, upper)


def _sharpened(arrays: Mapping[str, Any], method: str) -> Proof:
    if not any(re.fullmatch(sharpened.NAMES, name) for name in arrays):
        return _proof(arrays, method)
    return sharpened.Sharpened(_proof(arrays, method), sharpened.read_sharper(arrays))


def _proof(arrays: Mapping[str, Any], method: str) -> Proof:
    if sharpened.COLLAPSED not in arrays:
        return _plain_proof(arrays, method)
    one_whole(arrays, sharpened.COLLAPSED, 1, 1)  # it says that the proof is about the collapsed problem
    return sharpened.Within(_plain_proof(arrays, method))


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
        case "channels":
            return channels.read_channels(arrays)
        case "literal" | "lipopt":
            found: Proof = importlib.import_module(LITERAL_READER).read_stated(kind, arrays, method)
            return found
        case _:
            raise FileFormatError(f"an unknown kind of proof, {kind!r}; upgrade lipcert")
