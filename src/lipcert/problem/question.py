"""Question: everything that a bound is about. A producer builds one, and a certificate states the same one.

A proof is worth as much as the sentence about it. The producer of a certificate and its checker print the same
sentence, which a question makes from its own numbers: a checker has nothing else when it reads a stranger's file. The
sentence names everything that changes the meaning of a bound (norms, weights, the inputs that change, half-spaces,
clipping) and shortens long lists of numbers; the hash tells apart what the sentence does not.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lipcert.errors import FileFormatError
from lipcert.files.numbers import LARGEST, LARGEST_WHOLE, one_real, one_whole, real, whole, word
from lipcert.problem.frame import NAMES as FRAME_NAMES
from lipcert.problem.frame import Frame, read_frame
from lipcert.problem.network import Network
from lipcert.problem.norms import INF, Norm, parse_norms
from lipcert.problem.output import Output, OutputChoice, output_of
from lipcert.problem.problem import Problem
from lipcert.problem.region import Ball, Box, Everywhere, Polytope, Region, check_region
from lipcert.problem.weights import Index, ranges
from lipcert.rounding import Array
from lipcert.steps import Expired

Arrays = dict[str, NDArray[Any]]
WORDS = "wording|sentence"  # the names of the arrays of `Statement.words`
REGION = "lo|hi|center|radius|clip|side_rows|side_bounds|side_multipliers|side_point"
# The names of the arrays of a `Question`:
NAMES = f"network|norm|output_norm|coordinate|c|scores|inputs|lines|{FRAME_NAMES}|{REGION}"
TEXTS = frozenset({"network", "norm", "output_norm"})
WORDING = 1  # the version of the words below: a file with another one keeps words that nobody compares
MOST_LETTERS = 4096  # bytes of a sentence in a file
_NUMBERS = 9  # numbers that a sentence has in full, and
_PARTS = 5  # regions and scores that it names one by one
_LARGE = 1e8  # weights, convolutions written out, of a network whose hash takes a second or more: a table goes without


class Statement(ABC):
    """The statement of a certificate without its claim: a question about a network or about a polynomial problem.

    `network` is the network or its hash, None for polynomial problems. The hash of a large network takes longer than
    a bound, so it is computed when somebody looks at it.
    """

    network: Network | str | None

    @property
    @abstractmethod
    def sentence(self) -> str:
        """The question for a person, the same words from the producer of a certificate and from its checker."""

    @property
    @abstractmethod
    def defining_arrays(self) -> Mapping[str, NDArray[Any]]:
        """The arrays that define the question, by the names of a file, without the hash of the network."""

    @property
    @abstractmethod
    def plain(self) -> Mapping[str, Any]:
        """Plain values for JSON."""

    @property
    def meaning(self) -> str | None:
        """The claim as a formula, where the norms have weights."""
        return None

    @property
    def hints(self) -> Arrays:
        """The numbers that a file keeps beside the question: they help to prove something and change no meaning."""
        return {}

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """The arrays of the question in full: `defining_arrays` and the hash of the network."""
        return (
            self.defining_arrays
            if self.network is None
            else {**self.defining_arrays, "network": text_array(self.network_sha256)}
        )

    @property
    def network_sha256(self) -> str:
        """The hash of the network that the question is about."""
        net = self.network
        return net.sha256 if isinstance(net, Network) else net or ""

    @property
    def sha256(self) -> str:
        """A hash of the question in full: questions that differ in one number have different hashes."""
        digest = hashlib.sha256()
        for name, value in sorted(self.arrays.items()):
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
        """Plain values for JSON; the hash is null where an enforced time limit ends before it is computed."""
        try:
            known: str | None = self.sha256
        except Expired:
            known = None
        return {"sentence": self.sentence, "meaning": self.meaning, "sha256": known}

    def words(self) -> Arrays:
        """The sentence as a file keeps it, for people who open the file without lipcert."""
        letters = np.frombuffer(self.sentence.encode()[:MOST_LETTERS], dtype=np.uint8)
        return {"wording": np.array(WORDING), "sentence": letters}

    def compare(self, arrays: Mapping[str, Any]) -> None:
        """Refuse a file whose words say something else than its arrays; older files have no words."""
        if "sentence" not in arrays or "wording" not in arrays:
            return
        if np.array_equal(arrays["wording"], WORDING) and not np.array_equal(
            arrays["sentence"], self.words()["sentence"]
        ):
            raise FileFormatError(f"the words in the file are not what its arrays say, which is: {self.sentence}")


@dataclass(frozen=True)
class LargestNorm:
    """The largest norm of the gradient of c'scores (of the Jacobian where c is the identity) on the regions."""


@dataclass(frozen=True, eq=False)
class EveryCell:
    """The largest norm on each of `count` cells of a box; `places` are the arrays that say where the cells are."""

    count: int
    places: Mapping[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class EveryEntry:
    """The smallest and the largest partial derivative of each of some scores by each of some inputs."""

    scores: Index
    inputs: Index


@dataclass(frozen=True)
class UpperBounds:
    """An upper bound of each row of c times the scores."""


Objective = LargestNorm | EveryCell | EveryEntry | UpperBounds


@dataclass(frozen=True, eq=False)
class Question(Statement):
    """A network (or its hash), one region or several, norms, an output, and the objective, which says what to bound.

    `c` are the weights of the scores: a vector for one output, the identity for the whole map, a row for each bound
    where the objective is `UpperBounds`. `coordinate` is the number of the input where one partial derivative alone is
    asked for, `frame` has the weights of the norms and the inputs that change. The answer for several regions is the
    largest of their answers. Norms and c mean nothing where the objective is `EveryEntry`.
    """

    network: Network | str
    regions: tuple[Region, ...]
    norm: Norm = INF
    c: Array = field(default_factory=lambda: np.zeros(0))
    coordinate: int | None = None
    frame: Frame | None = None
    objective: Objective = field(default_factory=LargestNorm)
    first_lines: bool = False  # whether the proof needs the linear bounds that version 1.0.0 computed

    def __getstate__(self) -> dict[str, Any]:
        """Another process gets the hash in place of the network."""
        return vars(self) | {"network": self.network_sha256}

    @classmethod
    def of_constant(
        cls,
        network: Network,
        regions: Sequence[Region],
        output: OutputChoice | Output = None,
        norms: tuple[str | Norm, str | None] = ("inf", None),
        weights: tuple[ArrayLike | None, ArrayLike | None, Sequence[int] | None] = (None, None, None),
    ) -> Question:
        """The question about the largest norm, from the arguments of `bound`.

        `norms` are those of the inputs and of the outputs; `weights` are the weights of the inputs, those of the
        outputs, and the numbers of the inputs that change. Arguments that do not fit together are refused.
        """
        first = Problem.of(network, regions[0], output, *norms)
        for region in regions[1:]:
            check_region(region, network.inputs)
        return cls(network, tuple(regions), first.norm, first.c, frame=Frame.of(network, first.norm, *weights))

    @classmethod
    def of_entries(cls, network: Network | str, region: Region, scores: Index, inputs: Index) -> Question:
        """The question about the partial derivatives of some scores by some inputs."""
        return cls(network, (region,), objective=EveryEntry(scores, inputs))

    @classmethod
    def of_scores(cls, network: Network | str, region: Region, rows: Array) -> Question:
        """The question about upper bounds of the rows times the scores."""
        return cls(network, (region,), c=rows, objective=UpperBounds())

    @classmethod
    def of_problem(cls, problem: Problem) -> Question:
        """The question that a problem without weights answers."""
        return cls(problem.network, (problem.region,), problem.norm, problem.c, problem.coordinate)

    @property
    def region(self) -> Region:
        """The region; the first one where there are several."""
        return self.regions[0]

    def about(self, network: Network | str) -> Question:
        """The same question about another network, or about the network of this hash."""
        return replace(self, network=network)

    def unfit(self, net: Network) -> str | None:
        """Why a certificate that states this question does not fit the network, in words; None where it fits."""
        if self.network_sha256 != net.sha256:
            return "the certificate is about another network (the hashes differ)"
        if any(not isinstance(region, Everywhere) and region.size != net.inputs for region in self.regions):
            return "the certificate is about another number of inputs"
        match self.objective:
            case EveryEntry(scores, inputs):
                return _unfit_places(scores, net.outputs) or _unfit_places(inputs, net.inputs)
            case UpperBounds():
                return None if self.c.shape[-1] == net.outputs else self._other_scores(net)
            case _:
                return self._unfit_norm(net)

    def _unfit_norm(self, net: Network) -> str | None:
        norm, c, place = self.norm, self.c, self.coordinate
        if c.shape[-1:] != (net.outputs,):
            return self._other_scores(net)
        if (c.ndim == 2) != (norm.out is not None) or (c.ndim == 2 and not np.array_equal(c, np.eye(net.outputs))):
            return "the certificate is about several outputs, but not all of them"
        if place is not None and not (norm.p == "1" and 0 <= place < net.inputs and self.frame is None):
            return "the certificate is about one input in another norm than 1, or about one that there is not"
        if self.frame is not None and not self.frame.covers(net, norm):
            return "the weights are not those that the bounds were made with"
        return None

    def _other_scores(self, net: Network) -> str:
        return f"the certificate is about {self.c.shape[-1]} scores, not {net.outputs}"

    def problem(self) -> Problem:
        """The problem in norms without weights that answers this question on its first region.

        The weights are multiplied into the network of the problem (`problem.frame`).
        """
        assert isinstance(self.network, Network)
        if self.frame is not None:
            return self.frame.problem(self.network, self.region, self.norm, self.c)
        return Problem(self.network, self.region, self.norm, output_of(self.c), self.coordinate)

    @property
    def sentence(self) -> str:
        """The question for a person, the same words from the producer of a certificate and from its checker."""
        words = [region.words for region in self.regions]
        place = words[0] if len(words) == 1 else f"{len(words)} regions: {_few(words, '; ')}"
        match self.objective:
            case LargestNorm():
                return f"Lipschitz constant of {self._norm_words}, on {place}"
            case EveryCell(count):
                return f"Lipschitz constants of {self._norm_words}, on {count:,} cells of {place}"
            case EveryEntry(scores, inputs):
                return f"Jacobian of scores {ranges(scores)} by inputs {ranges(inputs)}, on {place}"
            case UpperBounds():
                return f"Upper bounds of {_few([str(output_of(row)) for row in self.c])}, on {place}"

    @property
    def _norm_words(self) -> str:
        """The output, the norms of both ends with their weights, and which inputs change."""
        norm, frame = self.norm, self.frame
        along = "" if self.coordinate is None else f" along input {self.coordinate}"
        if frame is None:
            return f"{output_of(self.c)} {norm.phrase}{along}"
        own, theirs = _weighted(norm.p, frame.input_weights), _weighted(norm.out, frame.output_weights)
        words = f"in the {own}" if norm.out is None else f"from the {own} to the {theirs}"
        change = "" if frame.inputs is None else f", where inputs {ranges(frame.inputs)} alone change"
        return f"{output_of(self.c)} {words}{change}{along}"

    @property
    def meaning(self) -> str | None:
        """The claim as a formula, where the norms have weights."""
        return None if self.frame is None else self.frame.words(self.norm)

    @property
    def plain(self) -> dict[str, Any]:
        """Plain values for JSON: the parts of the question by name."""
        places = [region.to_dict() for region in self.regions]
        place = {"region": places[0] if len(places) == 1 else {"type": "union", "count": len(places)}}
        match self.objective:
            case EveryEntry(scores, inputs):
                return {"outputs": scores.tolist(), "inputs": inputs.tolist(), **place}
            case UpperBounds():
                return place
            case _:
                norms = {"norm": self.norm.p, "output_norm": self.norm.out, "output": output_of(self.c).description}
                return {**norms, "weights": None if self.frame is None else self.frame.to_dict(self.norm), **place}

    @property
    def defining_arrays(self) -> Arrays:
        """The arrays that define the question, by the names of a file, without the hash of the network."""
        place = regions_arrays(self.regions)
        match self.objective:
            case EveryEntry(scores, inputs):
                return {"scores": scores, "inputs": inputs, **place}
            case UpperBounds():
                return {"c": self.c, **place}
            case EveryCell(_, places):
                return {**self._norm_arrays(), **place, **places}
            case _:
                return {**self._norm_arrays(), **place}

    def _norm_arrays(self) -> Arrays:
        found: Arrays = {"c": self.c, "norm": text_array(self.norm.p)}
        if self.norm.out is not None:
            found["output_norm"] = text_array(self.norm.out)
        if self.coordinate is not None:
            found["coordinate"] = np.array(self.coordinate)
        return found if self.frame is None else found | self.frame.defining_arrays()

    @property
    def hints(self) -> Arrays:
        """The numbers that a file keeps beside the question: they help to prove something and change no meaning.

        The frame has the scales of its proof; a region with half-spaces has the multipliers of the box around it, and a
        point inside. The rule of linear bounds is named where it is an older one.
        """
        found: Arrays = {"lines": np.array(1)} if self.first_lines else {}
        found |= {} if self.frame is None else self.frame.scales()
        return found | _numbered([_region_hints(region) for region in self.regions])

    @classmethod
    def read(cls, arrays: Mapping[str, Any], objective: Objective, regions: int = 1) -> Question:
        """The question of a file, from its `arrays` and `hints`: about `regions` regions and the network of a hash.

        The caller reads the objective, because `EveryCell` needs the proof that goes with it.
        """
        network, first = word(arrays, "network"), "kind" not in arrays  # as in every file of version 1.0.0
        if "lines" in arrays:
            first = one_whole(arrays, "lines", 1, 1) == 1
        places = tuple(read_region(_of_region(arrays, k, regions)) for k in range(regions))
        match objective:
            case EveryEntry():
                return cls(network, places, objective=objective, first_lines=first)
            case UpperBounds():
                c = real(arrays, "c", (None, None))
                return cls(network, places, c=c, objective=objective, first_lines=first)
        out = word(arrays, "output_norm") if "output_norm" in arrays else None
        norm = parse_norms(word(arrays, "norm"), out)
        c = real(arrays, "c", (None,) if out is None else (None, None))
        coordinate = one_whole(arrays, "coordinate", 0, LARGEST_WHOLE) if "coordinate" in arrays else None
        return cls(network, places, norm, c, coordinate, read_frame(arrays), objective, first)


def _unfit_places(chosen: Index, count: int) -> str | None:
    """Why these cannot be numbers of scores or of inputs, of which there are `count`; None where they can."""
    if np.any((chosen < 0) | (chosen >= count)):
        return "the certificate is about scores or inputs that the network does not have"
    if len(np.unique(chosen)) < len(chosen):  # a small file could ask for one of them a million times
        return "the certificate is about a score or an input twice"
    return None


def read_entries(arrays: Mapping[str, Any]) -> EveryEntry:
    """The objective of a file about entries of a Jacobian."""
    scores, inputs = (whole(arrays, name, (None,), 0, LARGEST_WHOLE) for name in ("scores", "inputs"))
    if not scores.size or not inputs.size:
        raise FileFormatError("there must be scores and inputs")
    return EveryEntry(scores, inputs)


def region_arrays(region: Region) -> Arrays:
    """The numbers of a region, by the names of a file; the whole space has none."""
    if isinstance(region, Polytope):
        return region_arrays(region.base) | {"side_rows": region.A, "side_bounds": region.b}
    if isinstance(region, Box):
        return {"lo": region.lo, "hi": region.hi}
    if not isinstance(region, Ball):
        return {}
    clip = {} if region.clip is None else {"clip": np.array(region.clip)}
    return {"center": region.center, "radius": np.array(region.radius), **clip}


def regions_arrays(regions: Sequence[Region]) -> Arrays:
    """The numbers of several regions, each name with the number of its region; one region has plain names."""
    return _numbered([region_arrays(region) for region in regions])


def _region_hints(region: Region) -> Arrays:
    if not isinstance(region, Polytope):
        return {}
    found = {"side_multipliers": region.multipliers, "side_point": region.inside}
    return {name: value for name, value in found.items() if value is not None}


def _numbered(parts: Sequence[Arrays]) -> Arrays:
    if len(parts) == 1:
        return parts[0]
    return {f"{name}_{k}": value for k, part in enumerate(parts) for name, value in part.items()}


def _of_region(arrays: Mapping[str, Any], k: int, count: int) -> Mapping[str, Any]:
    """The arrays of region k of `count`, by their plain names."""
    if count == 1:
        return arrays
    return {name: arrays[f"{name}_{k}"] for name in REGION.split("|") if f"{name}_{k}" in arrays}


def read_region(arrays: Mapping[str, Any]) -> Region:
    """The region of a file."""
    base = _read_base(arrays)
    if "side_rows" not in arrays and "side_bounds" not in arrays:
        return base
    if isinstance(base, Everywhere):
        raise FileFormatError("half-spaces cut a box or a ball, and there is none")
    rows, bounds = real(arrays, "side_rows", (None, base.size)), real(arrays, "side_bounds", (None,))
    shape = (2 * base.size, len(bounds))
    multipliers = real(arrays, "side_multipliers", shape, 0.0, LARGEST) if "side_multipliers" in arrays else None
    inside = real(arrays, "side_point", (base.size,)) if "side_point" in arrays else None
    return Polytope(base, rows, bounds, multipliers=multipliers, inside=inside)


def _read_base(arrays: Mapping[str, Any]) -> Box | Ball | Everywhere:
    if "center" in arrays or "radius" in arrays:
        clip = real(arrays, "clip", (2,)) if "clip" in arrays else None
        ends = None if clip is None else (float(clip[0]), float(clip[1]))
        return Ball(real(arrays, "center", (None,)), one_real(arrays, "radius", 0.0, LARGEST), ends)
    if "lo" in arrays or "hi" in arrays:
        return Box.from_bounds(real(arrays, "lo", (None,)), real(arrays, "hi", (None,)))
    return Everywhere()


def text_array(text: str) -> NDArray[Any]:
    """One word as an array without axes."""
    return np.array(text, dtype=f"U{max(len(text), 1)}")


def _weighted(p: str | None, weights: Array | None) -> str:
    if weights is None:
        return f"{p}-norm"
    if weights.ndim == 1:
        return f"{p}-norm weighted by {_listed(weights)}"
    return f"norm sqrt(t'Pt) with the {len(weights)} x {len(weights)} matrix P = {_listed(weights)}"


def _listed(numbers: Array) -> str:
    """A few numbers in full, a matrix row by row; of many numbers only how many there are and their range."""
    if numbers.size > _NUMBERS:
        return f"{numbers.size} numbers from {numbers.min():.6g} to {numbers.max():.6g}"
    rows = (", ".join(f"{e:.6g}" for e in row) for row in np.atleast_2d(numbers))
    return f"({'; '.join(rows)})"


def _few(words: Sequence[str], between: str = ", ") -> str:
    rest = f"{between}and {len(words) - _PARTS} more" if len(words) > _PARTS else ""
    return between.join(words[:_PARTS]) + rest
