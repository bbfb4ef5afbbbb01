"""verify(): a certificate checked against a network, without any solver."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import FileFormatError, InputError, MethodError
from lipcert.files import check_readable
from lipcert.files.archive import Archive
from lipcert.problem.network import Network
from lipcert.problem.norms import parse_norms
from lipcert.problem.region import Ball, Box, Everywhere, Region
from lipcert.proof.cases import has_cases, recheck_cases
from lipcert.proof.certificate import CERTIFICATE_VERSION, Certificate, ProvedCase
from lipcert.proof.cheap import prove_interval, prove_mixed, prove_product
from lipcert.proof.relaxed import RELAXATIONS, recheck
from lipcert.proof.tree import METHOD, TREE_NAMES, TREE_TEXTS, check_tree, read_tree
from lipcert.relaxation.cuts import valid_table
from lipcert.rounding import Array

_NAMES = re.compile(
    r"certificate|method|network|norm|output_norm|c|upper|lo|hi|center|radius|clip|cuts|reduction|multipliers|shift|"
    r"(?:multipliers|shift)_\d{1,3}|case_\d{1,4}_(?:head|numbers|cuts)|" + TREE_NAMES
)
_TEXTS = frozenset({"method", "network", "norm", "output_norm", "multipliers", "shift"}) | TREE_TEXTS


@dataclass(frozen=True)
class Verification:
    """What `verify` found: `upper` is what was proved just now, infinite when nothing was.

    `proved` says whether that supports the `claim` of the certificate, `reason` in words why or why not.
    """

    proved: bool
    upper: float
    claim: float
    reason: str


def verify(certificate: Certificate | str | os.PathLike[str], net: Network) -> Verification:
    """Check a proof without any solver: what does it prove about this network?

    certificate: as in `Result.certificate`, or the path of a file that `Certificate.save` wrote.
    net: the network that it is about.

    Rows are rebuilt from the network, so nothing that the file says about them is believed; the hash, the signs of the
    multipliers and the semidefiniteness are checked, and the bound is computed again with outward rounding.
    """
    if not isinstance(certificate, Certificate):
        certificate = load_certificate(certificate)
    claim = certificate.claim
    if certificate.network_sha256 != net.sha256:
        return Verification(False, np.inf, claim, "the certificate is about another network (the hashes differ)")
    if certificate.c.shape[-1:] != (net.outputs,):
        scores = f"the certificate is about {certificate.c.shape[-1]} scores, not {net.outputs}"
        return Verification(False, np.inf, claim, scores)
    if certificate.c.ndim != 1 and not (certificate.norm.out and np.array_equal(certificate.c, np.eye(net.outputs))):
        return Verification(False, np.inf, claim, "the certificate is about several outputs, but not all of them")
    with np.errstate(all="ignore"):  # an overflow proves nothing; it is no message
        upper = _recompute(certificate, net)
    if not upper <= claim or np.isinf(upper):
        if np.isinf(upper):
            return Verification(False, upper, claim, f"{certificate.method} proves no bound here")
        return Verification(False, upper, claim, f"{certificate.method} proves {upper:.9g} only")
    return Verification(True, upper, claim, "proved")


def load_certificate(path: str | os.PathLike[str]) -> Certificate:
    """Read a certificate; nothing in it is believed before `verify`."""
    file = check_readable(path)
    if file.suffix.lower() != ".npz":
        raise FileFormatError(f"{file}: certificates are .npz files, as written by --certificate")
    try:
        arrays = Archive(file, _NAMES, content="a certificate", texts=_TEXTS)
        return _parse(arrays)
    except InputError as error:
        raise FileFormatError(f"{file}: {error}") from None


def _parse(arrays: Mapping[str, Any]) -> Certificate:
    if "certificate" not in arrays:
        raise FileFormatError("not a certificate; write one with lipcert bound --certificate")
    version = arrays["certificate"]
    if version.shape != () or version.dtype.kind not in "iu" or version != CERTIFICATE_VERSION:
        raise FileFormatError(f"certificate version {version}; this lipcert reads version {CERTIFICATE_VERSION}")
    method, network, norm = (_text(arrays, name) for name in ("method", "network", "norm"))
    out = _text(arrays, "output_norm") if "output_norm" in arrays else None
    c, upper = _vector(arrays, "c", 1 if out is None else 2), arrays["upper"].astype(np.float64)
    if upper.shape != ():
        raise FileFormatError("the claim 'upper' must be one number")
    region = _region(arrays)
    if not np.all(np.isfinite(c)):
        raise FileFormatError("the output's weights are not finite")
    claim = float(upper)
    multipliers, shift = _named(arrays, "multipliers"), _named(arrays, "shift")
    tree = read_tree(arrays) if "tree" in arrays else None
    proof = (multipliers, shift, _cuts(arrays), claim, _reduction(arrays))
    return Certificate(
        method, network, region, parse_norms(norm, out), c, claim, *proof, cases=_cases(arrays), tree=tree
    )


def _region(arrays: Mapping[str, Any]) -> Region:
    if "center" in arrays or "radius" in arrays:
        radius, clip = arrays["radius"], _vector(arrays, "clip") if "clip" in arrays else None
        if radius.shape != () or radius.dtype.kind not in "fiu" or (clip is not None and clip.shape != (2,)):
            raise FileFormatError("the radius must be one number and clip two")
        ends = None if clip is None else (float(clip[0]), float(clip[1]))
        return Ball(_vector(arrays, "center"), float(radius), ends)
    if "lo" in arrays or "hi" in arrays:
        return Box.from_bounds(_vector(arrays, "lo"), _vector(arrays, "hi"))
    return Everywhere()


def _cases(arrays: Mapping[str, Any]) -> tuple[ProvedCase, ...]:
    cases: list[ProvedCase] = []
    while f"case_{len(cases)}_head" in arrays:
        name = f"case_{len(cases)}"
        head, numbers = arrays[f"{name}_head"], _vector(arrays, f"{name}_numbers")
        if head.shape != (4,) or head.dtype.kind not in "iu" or np.any(head < -1) or np.any(head[2:] < 0):
            raise FileFormatError(f"{name} must say which output and coordinate it is about")
        output, coordinate, wide, values = (int(v) for v in head)
        cases.append(
            ProvedCase(output, coordinate, bool(wide), bool(values), numbers, _cuts(arrays, f"{name}_cuts"), np.inf)
        )
    return tuple(cases)


def _recompute(certificate: Certificate, net: Network) -> float:
    arguments = (net, certificate.region, certificate.norm, certificate.c)
    if not isinstance(certificate.region, Everywhere) and certificate.region.size != net.inputs:
        return np.inf
    if certificate.method == "product":
        return prove_product(*arguments).upper
    if certificate.method == "interval":
        return prove_interval(*arguments).upper
    if certificate.method == "mixed":
        return prove_mixed(*arguments).upper
    if certificate.method in (METHOD, *RELAXATIONS):
        try:
            return _relaxed(certificate, net)
        except MethodError:  # a method that this network does not have: said by name
            raise
        except InputError:  # rows that overflow
            return np.inf
    raise FileFormatError(f"the certificate names an unknown method {certificate.method!r}; upgrade lipcert")


def _relaxed(certificate: Certificate, net: Network) -> float:
    """What rests on multipliers: one relaxation, one for each of several problems, or those of a tree."""
    if certificate.method == METHOD:
        about = (net, certificate.region, certificate.norm, certificate.c)
        return np.inf if certificate.tree is None else check_tree(certificate.tree, *about)
    return recheck_cases(certificate, net) if has_cases(certificate.norm) else recheck(certificate, net)


def _cuts(arrays: Mapping[str, Any], name: str = "cuts") -> NDArray[np.int64] | None:
    if name not in arrays:
        return None
    cuts = arrays[name]
    if cuts.dtype.kind not in "iu" or not valid_table(cuts.astype(np.int64)):
        raise FileFormatError("the table of cuts is not one")
    return np.asarray(cuts, dtype=np.int64)


def _reduction(arrays: Mapping[str, Any]) -> NDArray[np.int64] | None:
    if "reduction" not in arrays:
        return None
    table = arrays["reduction"]
    if table.dtype.kind not in "iu" or table.ndim != 1:
        raise FileFormatError("the reduction is not a list of whole numbers")
    return np.asarray(table, dtype=np.int64)


def _text(arrays: Mapping[str, Any], name: str) -> str:
    value = arrays[name]
    if value.shape != () or value.dtype.kind != "U":
        raise FileFormatError(f"{name} must be one word")
    return str(value)


def _vector(arrays: Mapping[str, Any], name: str, axes: int = 1) -> Array:
    value = arrays[name]
    if value.ndim != axes or value.dtype.kind not in "fiu":
        raise FileFormatError(f"{name} must be a vector of numbers")
    return np.asarray(value, dtype=np.float64)


def _named(arrays: Mapping[str, Any], prefix: str) -> dict[str, Array]:
    names = arrays[prefix]
    if names.ndim != 1 or (names.size and names.dtype.kind != "U"):
        raise FileFormatError(f"{prefix} must be a list of names")
    return {str(name): _vector(arrays, f"{prefix}_{i}") for i, name in enumerate(names)}
