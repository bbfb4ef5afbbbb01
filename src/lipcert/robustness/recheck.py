"""Constants of a kept job, proved again from their certificates: nothing that a record says is believed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from lipcert.errors import InputError
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.problem.output import choose_output
from lipcert.problem.region import Everywhere, Region
from lipcert.proof.verify import load_certificate, verify
from lipcert.robustness.pairs import PairConstant
from lipcert.robustness.scores import pair_output


def rechecked(
    pairs: tuple[PairConstant, ...], folder: Path, net: Network, region: Region, norm: Norm
) -> tuple[tuple[PairConstant, ...], list[str]]:
    """The pairs with the bounds that their certificates prove just now, none where they prove none; and notes."""
    answers, notes = [], []
    for pair in pairs:
        upper, reason = _upper(pair, folder, net, region, norm)
        answers.append(replace(pair, upper=upper))
        if upper is None and pair.upper is not None:
            notes.append(f"the constant of {pair.i} and {pair.j} was left out: {reason}")
    return tuple(answers), notes


def _upper(pair: PairConstant, folder: Path, net: Network, region: Region, norm: Norm) -> tuple[float | None, str]:
    if pair.certificate is None:
        return None, "it has no certificate"
    try:
        certificate = load_certificate(folder / pair.certificate)
    except InputError as error:
        return None, str(error)
    c = choose_output(pair_output(net, pair.i, pair.j), net.outputs).c
    same = certificate.norm == norm and np.array_equal(certificate.c, c)
    if not same or not (isinstance(certificate.region, Everywhere) or certificate.region == region):
        return None, "its certificate is about something else"
    answer = verify(certificate, net)
    return (answer.upper, answer.reason) if answer.proved else (None, answer.reason)
