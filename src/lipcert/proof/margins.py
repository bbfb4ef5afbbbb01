"""Margins on a box or a ball as certificates: c'scores <= upper, by linear bounds or by a relaxation's multipliers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from lipcert.bounds.cell import whole as whole_cell
from lipcert.bounds.interval import Interval, affine_interval
from lipcert.bounds.offsets import BallBlock, reaches
from lipcert.bounds.propagation import ForwardPass
from lipcert.bounds.substitution import BoundedBlock, forms_above
from lipcert.errors import FileFormatError, InputError
from lipcert.files.numbers import LARGEST_WHOLE, real, whole
from lipcert.problem.activations import IDENTITY
from lipcert.problem.blocks import Block
from lipcert.problem.network import Network
from lipcert.problem.problem import Problem
from lipcert.problem.question import Arrays, Question, UpperBounds
from lipcert.problem.region import Ball, Box
from lipcert.proof.certificate import CheckedBounds, NetworkCertificate
from lipcert.proof.cost import cell_seconds
from lipcert.proof.encoding import decode_numbers, encode_numbers
from lipcert.proof.multipliers import check, prove
from lipcert.relaxation.margin import Margin, applies, margin
from lipcert.rounding import Array, worst
from lipcert.steps import step

MAX_ROWS = 1000
Place = Box | Ball  # where margins hold


@dataclass(frozen=True, eq=False)
class MarginProof:
    """c'scores <= upper on the region; without multipliers by linear bounds, with them by `margin(.., keep)`.

    With multipliers and no `keep` by linear bounds with these slopes and weights of balls (`bounds.offsets`).
    """

    c: Array
    upper: float
    keep: int = -1
    multipliers: Mapping[str, Array] = field(default_factory=dict)
    shift: Mapping[str, Array] = field(default_factory=dict)

    @property
    def claim(self) -> float:
        """The claim in a file: `upper` with room for another BLAS, but a margin below zero stays below zero."""
        room = self.upper + 1e-9 * (1.0 + abs(self.upper))
        return min(room, self.upper / 2) if self.upper < 0 else room


@dataclass(frozen=True, eq=False)
class MarginCertificate(NetworkCertificate):
    """Margins of one network on one box or ball: a proof and a claim for each row of scores."""

    kind: ClassVar[str] = "margins"

    network: Network | str
    region: Place
    proofs: tuple[MarginProof, ...]
    claims: tuple[float, ...]
    first_lines: bool = False  # as `Question` has it

    def __repr__(self) -> str:
        return f"MarginCertificate({len(self.proofs)} rows of scores, {self.region!r})"

    @property
    def statement(self) -> Question:
        """The question that it answers, in full."""
        rows = np.array([proof.c for proof in self.proofs])
        return replace(Question.of_scores(self.network, self.region, rows), first_lines=self.first_lines)

    @property
    def claimed(self) -> Interval:
        """The claims of all rows."""
        return Interval(np.full(len(self.claims), -np.inf), np.array(self.claims))

    @property
    def checked(self) -> str:
        """The part of the proof that ball arithmetic checks, in words."""
        return "every row, linear forms or semidefiniteness"

    def content(self) -> Arrays:
        """The proofs and the claims; the rows of scores belong to the question."""
        keep = np.array([p.keep for p in self.proofs], dtype=np.int64)
        return {**encode_numbers(self.proofs), "keep": keep, "claim": np.array(self.claims)}

    def cost(self, net: Network) -> tuple[float, str]:
        """The seconds that the check is expected to take, and a phrase that says what makes it long."""
        return cell_seconds(net) * (1 + len(self.proofs)), f"{len(self.proofs):,} rows of scores"

    def check(self, net: Network) -> CheckedBounds:
        """Compute the bound of each row again, infinite where none is proved; only the multipliers are the file's."""
        try:  # all rows at once: bounds of the layers before them are the same for all
            pre, linear = linear_margins(net, self.region, self.statement.c)
        except InputError as error:  # rows that overflow
            return self._no_bounds(str(error))
        pairs = zip(self.proofs, linear, strict=True)
        return CheckedBounds.from_uppers(
            np.array([_rechecked(proof, net, self.region, pre, float(top)) for proof, top in pairs])
        )

    def check_with_balls(self, net: Network, balls: Any) -> CheckedBounds:
        """Compute the bound of each row again in ball arithmetic."""
        return CheckedBounds.from_uppers(np.array(balls.margins_with_balls(self, net)))

    def unproved(self, found: CheckedBounds, who: str) -> str | None:
        """Why the claims do not follow, in words."""
        failed, by = int(self.wrong(found).sum()), " by ball arithmetic" * (who != "it")
        return f"{failed} of {len(self.claims)} claims are not proved{by}" if failed else None


def certificate_of(net: Network, region: Place, proofs: tuple[MarginProof, ...]) -> MarginCertificate:
    return MarginCertificate(net, region, proofs, tuple(p.claim for p in proofs))


def linear_margins(net: Network, region: Place, rows: Array) -> tuple[tuple[Interval, ...], Array]:
    """Pre-activation bounds on the region, and upper bounds of rows @ scores: the rows as one more layer."""
    bounds = joint_bounds(with_margins(net, rows), region)
    return bounds[: net.depth], bounds[-1].hi


def joint_bounds(net: Network, region: Place) -> tuple[Interval, ...]:
    """Pre-activation bounds by linear forms of all neurons; on a clipped ball by ball and ends together."""
    joint = isinstance(region, Ball) and region.clip is not None
    return ForwardPass(net, [whole_cell(net, region)], every=True, joint=joint).run().of(0)


def slopes_name(layer: int) -> str:
    """The name in files of the slopes of a layer, counted from 1."""
    return f"slopes {layer}"


WEIGHTS = "weights of balls"


def fitting(
    net: Network, region: Place, pre: Sequence[Interval], numbers: Mapping[str, Array]
) -> tuple[list[Array], list[float]] | None:
    """The slopes and the weights of all layers in a proof; None where they are none of this network on a ball."""
    weights = numbers.get(WEIGHTS, np.zeros(0))
    slopes = [numbers.get(slopes_name(k), np.zeros(0)) for k in range(1, net.depth + 1)]
    fits = weights.shape == (net.depth,) and all(s.shape == z.lo.shape for s, z in zip(slopes, pre, strict=True))
    good = fits and isinstance(region, Ball) and all(np.all(np.isfinite(v)) for v in (weights, *slopes))
    return (slopes, weights.tolist()) if good and np.all(weights >= 0) else None


def offset_margin(
    net: Network, region: Place, c: Array, pre: tuple[Interval, ...], numbers: Mapping[str, Array]
) -> float:
    """An upper bound of c'scores on a ball from any slopes and any weights >= 0, infinite where they do not fit."""
    found = fitting(net, region, pre, numbers)
    if found is None or not isinstance(region, Ball):
        return np.inf
    longer = with_margins(net, c[None])
    box = Interval(region.box.lo[None], region.box.hi[None])
    values, stages = [box], list[BoundedBlock]()
    for k, (reach, s, weight) in enumerate(zip(reaches(net, region, pre), *found, strict=True)):
        block, z = net.hidden[k], Interval(pre[k].lo[None], pre[k].hi[None])
        x = Interval(*block.activation.value_bounds(*z))
        stages.append(BallBlock(block, z, x, (values[k],), reach, s, weight))
        values.append(x)
    scores = longer.hidden[-2]
    z = affine_interval(scores.terms[0][1], scores.bias, values[-1])
    stages.append(BoundedBlock(scores, z, z, (values[-1],)))
    forms = forms_above(longer.hidden[-1], np.zeros(1, dtype=np.int64), stages, box)
    return worst(float(forms.largest(box, region, region.clip is not None)[0, 0]))


def with_margins(net: Network, rows: Array) -> Network:
    """The network whose last hidden block is rows @ scores."""
    count, behind = len(rows), len(net.blocks)
    margins = Block(((behind, rows),), np.zeros(count), IDENTITY)
    return Network.from_blocks((*net.blocks, margins, Block(((behind + 1, np.eye(count)),), np.zeros(count))))


def prove_margin(problem: Margin, c: Array, keep: int, multipliers: Array) -> MarginProof:
    """The bound from any multipliers of `margin(.., keep)` for these weights c, good or bad."""
    proof = prove(problem.relaxation, multipliers)
    relaxation = problem.relaxation
    rows, shift = relaxation.pack(proof.multipliers), relaxation.spread(proof.shift)
    return MarginProof(c, _unlifted(proof.upper, problem.lift), keep, rows, shift)


def _rechecked(proof: MarginProof, net: Network, region: Place, pre: tuple[Interval, ...], linear: float) -> float:
    step()
    try:
        return _recheck(proof, net, region, pre, linear)
    except InputError:
        return np.inf


def _recheck(proof: MarginProof, net: Network, region: Place, pre: tuple[Interval, ...], linear: float) -> float:
    if not proof.multipliers:
        return worst(linear)
    if not applies(net):
        return np.inf
    if proof.keep < 0:
        return offset_margin(net, region, proof.c, pre, proof.multipliers)
    problem = margin(Problem.of(net, region, proof.c).on(region, preactivations=pre), proof.keep)
    relaxation = problem.relaxation
    if not relaxation.fits(proof.multipliers, proof.shift):
        return np.inf
    multipliers, shift = relaxation.unpack(proof.multipliers), relaxation.gather(proof.shift)
    return _unlifted(check(relaxation, multipliers, shift).upper, problem.lift)


def _unlifted(upper: float, lift: float) -> float:
    return worst(float(np.nextafter(upper - lift, np.inf)))


def read_margins(arrays: Mapping[str, Any]) -> MarginCertificate:
    """The certificate of a file."""
    question = Question.read(arrays, UpperBounds())
    count = len(question.c)
    if not 1 <= count <= MAX_ROWS:  # "proved" would be true of no margin at all, and say nothing
        raise FileFormatError(f"{count or 'no'} margins; a file has 1 to {MAX_ROWS:,}")
    if not isinstance(question.region, Place):
        raise FileFormatError("margins hold on a box or a ball, and the file has neither")
    keep = whole(arrays, "keep", (count,), -1, LARGEST_WHOLE)
    claims = real(arrays, "claim", (count,), -np.inf, np.inf)
    rows = zip(question.c, keep, decode_numbers(arrays, count), strict=True)
    proofs = tuple(MarginProof(row, np.inf, int(size), *both) for row, size, both in rows)
    claimed = tuple(claims.tolist())
    return MarginCertificate(question.network_sha256, question.region, proofs, claimed, question.first_lines)
