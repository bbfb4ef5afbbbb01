"""Statement: what a certificate is about, in full, in words and in arrays.

A proof is worth as much as the sentence about it. Whoever makes a certificate and whoever checks it print the sentence
of its statement, and the statement is made from the arrays of the certificate alone: nothing else is at hand when a
stranger's file is checked. The words name everything that changes the meaning of a bound (norms, weights, the inputs
that change, half-spaces, clipping) and shorten long lists of numbers; the hash tells apart what the words do not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import FileFormatError
from lipcert.problem.frame import Frame
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.problem.output import output_of
from lipcert.problem.region import Ball, Box, Polytope, Region
from lipcert.problem.weights import Index, ranges
from lipcert.rounding import Array
from lipcert.steps import Expired

Arrays = dict[str, NDArray[np.generic]]
NAMES = "wording|sentence"
WORDING = 1  # the version of the words below: a file with another one keeps words that nobody compares
MOST_LETTERS = 4096  # bytes of a sentence in a file
_NUMBERS = 9  # numbers that a sentence has in full, and
_PARTS = 5  # regions and scores that it names one by one
_LARGE = 1e8  # weights, convolutions written out, of a network whose hash takes a second or more: a table goes without


@dataclass(frozen=True, eq=False)
class Statement:
    """What is bounded (`subject`), where (`place`), as a formula (`meaning`, where the norms have weights), in arrays.

    `asked` are the arrays of the certificate's file that say what is asked, but for the network's hash; hints and
    proofs are not among them. `plain` is the same for JSON. `network` is the network or its hash, None for polynomial
    problems: the hash of a large network takes longer than a bound, and is computed when somebody looks at it.
    """

    subject: str
    place: str
    asked: Mapping[str, NDArray[Any]]
    plain: Mapping[str, Any]
    network: Network | str | None
    meaning: str | None = None

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """The question in full."""
        if self.network is None:
            return self.asked
        return {**self.asked, "network": _text(self.network if isinstance(self.network, str) else self.network.sha256)}

    @property
    def sentence(self) -> str:
        """What a person reads, from whoever makes the certificate and from whoever checks it."""
        return f"{self.subject}, on {self.place}" if self.place else self.subject

    @property
    def sha256(self) -> str:
        """A hash of the question in full: questions that differ in one number have different hashes."""
        digest = hashlib.sha256()
        for name in sorted(self.arrays):
            value = self.arrays[name]
            plain = str(value) if value.dtype.kind == "U" else np.asarray(value, dtype=np.float64) + 0.0  # no -0.0
            body = plain.encode() if isinstance(plain, str) else np.ascontiguousarray(plain, dtype="<f8").tobytes()
            digest.update(f"{name} {value.shape} {len(body)} ".encode() + body)
        return digest.hexdigest()

    @property
    def rows(self) -> list[tuple[str, str]]:
        """Names and values for a short table; the sentence about a polynomial problem has its hash already."""
        formula = [] if self.meaning is None else [("meaning", self.meaning)]
        net = self.network
        slow = isinstance(net, Network) and net.entries > _LARGE and "sha256" not in vars(net)
        return formula if net is None or slow else [*formula, ("statement", self.sha256[:16])]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; the hash is null where it has no time left under an enforced limit."""
        try:
            known: str | None = self.sha256
        except Expired:
            known = None
        return {"sentence": self.sentence, "meaning": self.meaning, "sha256": known}

    def kept(self) -> Arrays:
        """The words as a file keeps them, for people who open it without lipcert."""
        letters = np.frombuffer(self.sentence.encode()[:MOST_LETTERS], dtype=np.uint8)
        return {"wording": np.array(WORDING), "sentence": letters}

    def compare(self, arrays: Mapping[str, Any]) -> None:
        """Refuse a file whose words say something else than its arrays; older files have no words."""
        if "sentence" not in arrays or "wording" not in arrays:
            return
        if np.array_equal(arrays["wording"], WORDING) and not np.array_equal(
            arrays["sentence"], self.kept()["sentence"]
        ):
            raise FileFormatError(f"the words in the file are not what its arrays say, which is: {self.sentence}")


def about_constant(
    network: Network | str,
    regions: Sequence[Region],
    norm: Norm,
    c: Array,
    coordinate: int | None = None,
    frame: Frame | None = None,
) -> Statement:
    """The Lipschitz constant of one output or of the whole map; on several regions the largest of theirs."""
    arrays = {"c": c, **_constant_arrays(norm, coordinate, frame), **regions_arrays(regions)}
    along = "" if coordinate is None else f" along input {coordinate}"
    subject = f"Lipschitz constant of {output_of(c)} {_norms(norm, frame)}{along}"
    places = [region.to_dict() for region in regions]
    plain = {
        "norm": norm.p,
        "output_norm": norm.out,
        "output": output_of(c).description,
        "weights": None if frame is None else frame.to_dict(norm),
        "region": places[0] if len(places) == 1 else {"type": "union", "count": len(places)},
    }
    meaning = None if frame is None else frame.words(norm)
    return Statement(subject, _places(regions), arrays, plain, network, meaning)


def about_cells(
    network: str, region: Box, norm: Norm, c: Array, frame: Frame | None, cells: tuple[int, Arrays]
) -> Statement:
    """The constants on all cells of a box: how many, and the arrays that say where they are."""
    whole = about_constant(network, [region], norm, c, None, frame)
    subject = whole.subject.replace("constant", "constants", 1)
    place = f"{cells[0]:,} cells of {whole.place}"
    return Statement(subject, place, {**whole.asked, **cells[1]}, whole.plain, network, whole.meaning)


def about_entries(network: str, region: Region, scores: Index, inputs: Index) -> Statement:
    """The partial derivatives of some scores along some inputs."""
    arrays = {"scores": scores, "inputs": inputs, **region_arrays(region)}
    plain = {"outputs": scores.tolist(), "inputs": inputs.tolist(), "region": region.to_dict()}
    return Statement(
        f"Jacobian of scores {ranges(scores)} by inputs {ranges(inputs)}", region.words, arrays, plain, network
    )


def about_scores(network: str, box: Box, rows: Array) -> Statement:
    """Upper bounds of combinations of scores."""
    arrays = {"c": rows, **region_arrays(box)}
    subject = f"Upper bounds of {_few([str(output_of(row)) for row in rows])}"
    return Statement(subject, box.words, arrays, {"region": box.to_dict()}, network)


def about_polynomial(problem: str, sense: str) -> Statement:
    """The optimum of a polynomial problem, which its hash names."""
    end = "Least" if sense == "min" else "Largest"
    words = f"{end} value of the polynomial problem {problem[:16]}"
    return Statement(words, "", {"problem": _text(problem), "sense": _text(sense)}, {"sense": sense}, None)


def about_data(count: int, radii: Sequence[float], norm: Norm, domain: tuple[float, float] | None, clip: bool) -> str:
    """The sentence about a data set: whoever certifies it and whoever proves it again print the same."""
    within = ", ".join(f"{r:g}" for r in radii)
    limits = "" if domain is None else f", values in [{domain[0]:g}, {domain[1]:g}]{', clipped' if clip else ''}"
    return f"Certification of {count:,} input{'' if count == 1 else 's'} within {within} {norm.phrase}{limits}"


def region_arrays(region: Region) -> Arrays:
    """The numbers of a region, by the names of a file: none of the whole space."""
    if isinstance(region, Polytope):
        return region_arrays(region.base) | {"side_rows": region.A, "side_bounds": region.b}
    if isinstance(region, Box):
        return {"lo": region.lo, "hi": region.hi}
    if not isinstance(region, Ball):
        return {}
    clip = {} if region.clip is None else {"clip": np.array(region.clip)}
    return {"center": region.center, "radius": np.array(region.radius), **clip}


def regions_arrays(regions: Sequence[Region]) -> Arrays:
    """The numbers of several regions; those of one have plain names."""
    if len(regions) == 1:
        return region_arrays(regions[0])
    return {f"{name}_{k}": v for k, region in enumerate(regions) for name, v in region_arrays(region).items()}


def _constant_arrays(norm: Norm, coordinate: int | None, frame: Frame | None) -> Arrays:
    arrays: Arrays = {"norm": _text(norm.p)}
    if norm.out is not None:
        arrays["output_norm"] = _text(norm.out)
    if coordinate is not None:
        arrays["coordinate"] = np.array(coordinate)
    return arrays if frame is None else arrays | frame.asked()


def _text(word: str) -> NDArray[np.generic]:
    return np.array(word, dtype=f"U{max(len(word), 1)}")


def _norms(norm: Norm, frame: Frame | None) -> str:
    """The norms of both ends with their weights, and which inputs change."""
    if frame is None:
        return norm.phrase
    own, theirs = _weighted(norm.p, frame.input_weights), _weighted(norm.out, frame.output_weights)
    words = f"in the {own}" if norm.out is None else f"from the {own} to the {theirs}"
    return words if frame.inputs is None else f"{words}, where inputs {ranges(frame.inputs)} alone change"


def _weighted(p: str | None, weights: Array | None) -> str:
    if weights is None:
        return f"{p}-norm"
    if weights.ndim == 1:
        return f"{p}-norm weighted by {_listed(weights)}"
    return f"norm sqrt(t'Pt) with the {len(weights)} x {len(weights)} matrix P = {_listed(weights)}"


def _listed(numbers: Array) -> str:
    """A few numbers in full, a matrix row by row; of many their number and their range."""
    if numbers.size > _NUMBERS:
        return f"{numbers.size} numbers from {numbers.min():.6g} to {numbers.max():.6g}"
    rows = (", ".join(f"{e:.6g}" for e in row) for row in np.atleast_2d(numbers))
    return f"({'; '.join(rows)})"


def _places(regions: Sequence[Region]) -> str:
    if len(regions) == 1:
        return regions[0].words
    return f"{len(regions)} regions: {_few([region.words for region in regions], '; ')}"


def _few(words: Sequence[str], between: str = ", ") -> str:
    rest = f"{between}and {len(words) - _PARTS} more" if len(words) > _PARTS else ""
    return between.join(words[:_PARTS]) + rest
