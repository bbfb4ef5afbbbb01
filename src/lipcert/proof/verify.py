"""verify(): a certificate checked against a network, without any solver."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from lipcert.errors import InputError
from lipcert.problem.network import Network
from lipcert.problem.question import Question
from lipcert.problem.region import Everywhere
from lipcert.proof.certificate import Envelope
from lipcert.proof.file import load_proof
from lipcert.proof.verification import Verification
from lipcert.readers.given import TorchModule, network_of
from lipcert.steps import Expired


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
        Proofs about polynomial problems, and those of methods as the paper states them (`literal`), are refused.
    time_limit: seconds, after which nothing is proved; without it the check takes what the file needs.

    Rows are rebuilt from the network, so nothing that the file says about them is believed; the hash, the signs of the
    multipliers and the semidefiniteness are checked, and the bound is computed again with outward rounding. The answer
    has the statement of the certificate: the question in full, in words. The code that has to be trusted is listed in
    docs/trust.md.
    """
    loaded = as_certificate(certificate)
    if time_limit is not None:
        from lipcert.budget.budget import within  # here: a checker has no clock

        try:
            with within(time_limit):
                return verify(loaded, net, exact=exact)
        except Expired as error:
            claim = getattr(loaded, "claim", np.nan)  # a file with many numbers has no single claim
            return Verification(False, np.inf, claim, str(error), loaded.statement)
    if not isinstance(loaded.statement, Question):
        return loaded.verify(net, exact)
    region = loaded.statement.region
    shape = None if len(loaded.statement.regions) > 1 or isinstance(region, Everywhere) else region.shape
    return loaded.verify(network_of(net, shape), exact)


def as_certificate(given: Any) -> Envelope:
    """The certificate itself, that of a result, or the one in a file of this path; anything else is refused."""
    if isinstance(given, str | os.PathLike):
        return load_proof(given)
    for candidate in (given, getattr(given, "certificate", None)):
        if isinstance(candidate, Envelope):
            return candidate
    raise InputError(
        f"verify: {type(given).__name__} is no certificate; give a result, its certificate, or the path of a file"
    )
