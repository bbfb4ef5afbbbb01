"""verify(): a certificate checked against a network, without any solver."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from lipcert.errors import FileFormatError, InputError, MethodError, OutOfTime
from lipcert.files import check_readable, write_json
from lipcert.files.archive import Archive, holds
from lipcert.files.numbers import MOST_WHOLE, one_real, one_whole, real, word
from lipcert.problem.frame import NAMES as FRAME_NAMES
from lipcert.problem.frame import read_frame
from lipcert.problem.network import Network
from lipcert.problem.norms import parse_norms
from lipcert.problem.output import output_of
from lipcert.problem.problem import Problem
from lipcert.problem.region import Everywhere
from lipcert.proof import collapsed, cost, encoding, patterns, sharpened, slopes, stated, tree, version1
from lipcert.proof.arithmetic import Arithmetic
from lipcert.proof.cases import read_cases
from lipcert.proof.certificate import CERTIFICATE_VERSION, Certificate, Proof, read_region
from lipcert.proof.relaxed import Multipliers
from lipcert.readers.given import TorchModule, network_of
from lipcert.relaxation.specification import RELAXATIONS
from lipcert.rounding import worst
from lipcert.steps import expect

if TYPE_CHECKING:
    from lipcert.chart.facts import Facts

_ABOUT = "certificate|proof|method|network|norm|output_norm|coordinate|c|upper|lo|hi|center|radius|clip"
_SIDES = "side_rows|side_bounds|side_multipliers"
_KINDS = (encoding, tree, patterns, slopes, stated, version1)
_NAMES = re.compile(
    "|".join((_ABOUT, _SIDES, "cases", FRAME_NAMES, collapsed.NAME, sharpened.NAMES, *(kind.NAMES for kind in _KINDS)))
)
_TEXTS = frozenset({"proof", "method", "network", "norm", "output_norm"}).union(*(kind.TEXTS for kind in _KINDS))


@dataclass(frozen=True)
class Verification:
    """What `verify` found: `upper` is what was proved just now, infinite when nothing was.

    `proved` says whether that supports the `claim` of the certificate, `reason` in words why or why not.
    """

    proved: bool
    upper: float
    claim: float
    reason: str

    def facts(self) -> Facts:
        """What a person wants to read first."""
        from lipcert.chart.facts import Facts  # here, so that a check loads nothing that it does not need

        upper = f"{self.upper:.9g}   recomputed now" if np.isfinite(self.upper) else "none"
        rows = [("upper", upper), ("claim", f"{self.claim:.9g}   as stored"), ("reason", self.reason)]
        return Facts("Certificate proved" if self.proved else "Certificate not proved", rows)

    def __repr__(self) -> str:
        return self.facts().text()

    def _repr_html_(self) -> str:
        return self.facts().html()

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; an infinite number is null."""
        return {
            "proved": self.proved,
            "upper": self.upper if np.isfinite(self.upper) else None,
            "claim": self.claim if np.isfinite(self.claim) else None,
            "reason": self.reason,
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as .json."""
        write_json(path, self.to_dict(), "a verification")


def verify(
    certificate: Certificate | str | os.PathLike[str],
    net: Network | str | os.PathLike[str] | TorchModule,
    *,
    time_limit: float | None = None,
) -> Verification:
    """Check a proof without any solver: what does it prove about this network?

    certificate: as in `Result.certificate`, or the path of a file that `Certificate.save` wrote. (Of several regions:
        `verify_union`.)
    net: the network that it is about, or the path of its file, or a torch module.
    time_limit: seconds, after which nothing is proved; without it the check takes what the file needs.

    Rows are rebuilt from the network, so nothing that the file says about them is believed; the hash, the signs of the
    multipliers and the semidefiniteness are checked, and the bound is computed again with outward rounding. What has
    to be trusted for that is listed in docs/trust.md.
    """
    if not isinstance(certificate, Certificate):
        certificate = load_certificate(certificate)
    if time_limit is not None:
        from lipcert.budget.limit import within  # here: a checker has no clock

        try:
            with within(time_limit):
                return verify(certificate, net)
        except OutOfTime as error:
            return Verification(False, np.inf, certificate.claim, str(error))
    region = certificate.region
    net = network_of(net, None if isinstance(region, Everywhere) else region.shape)
    claim = certificate.claim
    if certificate.network_sha256 != net.sha256:
        return Verification(False, np.inf, claim, "the certificate is about another network (the hashes differ)")
    if certificate.c.shape[-1:] != (net.outputs,):
        scores = f"the certificate is about {certificate.c.shape[-1]} scores, not {net.outputs}"
        return Verification(False, np.inf, claim, scores)
    if certificate.c.ndim != 1 and not (certificate.norm.out and np.array_equal(certificate.c, np.eye(net.outputs))):
        return Verification(False, np.inf, claim, "the certificate is about several outputs, but not all of them")
    expect(cost.seconds(net, certificate.proof), cost.words(certificate.proof))
    with np.errstate(all="ignore"):  # an overflow proves nothing; it is no message
        upper = worst(_check(certificate, net))
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
    version = one_whole(arrays, "certificate", 0, MOST_WHOLE)
    if version not in (version1.VERSION, CERTIFICATE_VERSION):
        raise FileFormatError(f"certificate version {version}; this lipcert reads version {CERTIFICATE_VERSION}")
    method, network, norm = (word(arrays, name) for name in ("method", "network", "norm"))
    out = word(arrays, "output_norm") if "output_norm" in arrays else None
    c, upper = real(arrays, "c", (None,) if out is None else (None, None)), one_real(arrays, "upper", -np.inf, np.inf)
    proof = version1.read_old(arrays, method) if version == version1.VERSION else _sharpened(arrays, method)
    coordinate = one_whole(arrays, "coordinate", 0, MOST_WHOLE) if "coordinate" in arrays else None
    about = (network, read_region(arrays), parse_norms(norm, out), c)
    return Certificate(*about, proof, upper, coordinate, upper, read_frame(arrays))


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
        case "tree":
            own = re.compile(f"{tree.NAMES}|{encoding.NAMES}")
            names = [name for name in arrays if own.fullmatch(name) and name != "tree_digest"]
            return tree.read_tree(arrays, {name: arrays[name] for name in names})
        case "patterns":
            names = [name for name in arrays if re.fullmatch(patterns.NAMES, name) and name != "patterns_digest"]
            return patterns.read_patterns(arrays, {name: arrays[name] for name in names})
        case "slopes":
            return slopes.read_slopes(arrays)
        case "literal" | "lipopt":
            return stated.read_stated(kind, arrays, method)
        case _:
            raise FileFormatError(f"an unknown kind of proof, {kind!r}; upgrade lipcert")


def _check(certificate: Certificate, net: Network) -> float:
    region = certificate.region
    if not isinstance(region, Everywhere) and region.size != net.inputs:
        return np.inf
    if certificate.coordinate is not None and not (
        certificate.norm.p == "1" and 0 <= certificate.coordinate < net.inputs
    ):
        return np.inf
    problem = Problem(net, region, certificate.norm, output_of(certificate.c), certificate.coordinate)
    try:
        if certificate.frame is not None:
            if problem.coordinate is not None or not certificate.frame.covers(net, problem.norm):
                return np.inf
            problem = certificate.frame.problem(net, region, problem.norm, problem.c)
        return certificate.proof.check(problem)
    except (MethodError, FileFormatError):  # a method that this network does not have, or nobody knows: said by name
        raise
    except InputError:  # rows that overflow, or that are none
        return np.inf
