"""Simpler problems: fewer outputs, blocks, neurons and inputs, rounder weights, a rounder region."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np

from benchmarks.fuzz._problems import Case
from lipcert import Activation, Ball, Box, Everywhere, Network, Polytope
from lipcert.errors import LipcertError
from lipcert.problem.blocks import Block
from lipcert.problem.maps import matrix
from lipcert.problem.region import Region
from lipcert.rounding import Array

Plain = tuple[dict[int, Array], Array, Activation]  # terms, bias, activation


def smaller(case: Case) -> Iterator[Case]:
    """The largest steps first."""
    plain = _plain(case.network)
    for k in range(len(plain) - 1):
        yield from _made(case, _without_block(plain, k))
    for k, (_, bias, _) in enumerate(plain[:-1]):
        for j in range(len(bias)) if len(bias) > 1 else ():
            yield from _made(case, _without_neuron(plain, k, j))
    yield from _fewer_outputs(case, plain)
    yield from _fewer_inputs(case, plain)
    for k, (terms, _, f) in enumerate(plain):
        for source in terms if len(terms) > 1 else ():
            kept = {j: W for j, W in terms.items() if j != source}
            yield from _made(case, [*plain[:k], (kept, plain[k][1], f), *plain[k + 1 :]])
        if f.kind not in ("relu", "identity"):
            yield from _made(case, [*plain[:k], (terms, plain[k][1], Activation("relu")), *plain[k + 1 :]])
    yield from _rounder(case, plain)


def _plain(net: Network) -> list[Plain]:
    found: list[Plain] = []
    for block in net.blocks:
        terms = {}
        for source, weight in block.terms:
            W = matrix(weight)
            terms[source] = W if isinstance(W, np.ndarray) else W.toarray()
        found.append((terms, block.bias, block.activation))
    return found


def _made(case: Case, plain: list[Plain]) -> Iterator[Case]:
    with suppress(LipcertError, ValueError):
        blocks = [Block(tuple(sorted(terms.items())), bias, f) for terms, bias, f in plain]
        yield case.with_network(Network.from_blocks(blocks))


def _without_block(plain: list[Plain], k: int) -> list[Plain]:
    """Whoever read it reads what it read, by the product of the matrices."""
    gone, own = k + 1, plain[k]
    found = []
    for i, (terms, bias, f) in enumerate(plain):
        if i == k:
            continue
        new: dict[int, Array] = {}
        for j, W in terms.items():
            for source, V in own[0].items() if j == gone else ((j, None),):
                at = source - (source > gone)
                part = W if V is None else W @ V
                new[at] = new[at] + part if at in new else part
        found.append((new, bias, f))
    return found


def _without_neuron(plain: list[Plain], k: int, j: int) -> list[Plain]:
    found = []
    for i, (terms, bias, f) in enumerate(plain):
        new = {s: np.delete(W, j, axis=1) if s == k + 1 else W for s, W in terms.items()}
        if i == k:
            new, bias = {s: np.delete(W, j, axis=0) for s, W in new.items()}, np.delete(bias, j)
        found.append((new, bias, f))
    return found


def _fewer_outputs(case: Case, plain: list[Plain]) -> Iterator[Case]:
    terms, bias, f = plain[-1]
    for j in range(len(bias)) if len(bias) > 1 else ():
        last = ({s: np.delete(W, j, axis=0) for s, W in terms.items()}, np.delete(bias, j), f)
        own = case if case.c is None else replace(case, c=np.delete(case.c, j))
        yield from _made(own, [*plain[:-1], last])


def _fewer_inputs(case: Case, plain: list[Plain]) -> Iterator[Case]:
    n, r = case.network.inputs, case.region
    for j in range(n) if n > 1 else ():
        fewer = [({s: np.delete(W, j, axis=1) if s == 0 else W for s, W in t.items()}, b, f) for t, b, f in plain]
        yield from _made(replace(case, region=_flattened(r, j)), fewer)


def _flattened(r: Region, j: int) -> Region:
    """Without a coordinate."""
    if isinstance(r, Polytope):
        base = _flattened(r.base, j)
        assert isinstance(base, Box | Ball)
        return Polytope(base, np.delete(r.A, j, axis=1), r.b)
    if isinstance(r, Box):
        return Box.from_bounds(np.delete(r.lo, j), np.delete(r.hi, j))
    return Ball(np.delete(r.center, j), r.radius, r.clip) if isinstance(r, Ball) else r


def _rounder(case: Case, plain: list[Plain]) -> Iterator[Case]:
    r = case.region
    if not isinstance(r, Everywhere):
        yield replace(case, region=Everywhere())
    if isinstance(r, Polytope):
        yield replace(case, region=r.base)
        for k in range(r.count) if r.count > 1 else ():
            yield replace(case, region=Polytope(r.base, np.delete(r.A, k, axis=0), np.delete(r.b, k)))
    for digits in (0, 1, 2):
        rounded = [({s: np.round(W, digits) for s, W in t.items()}, np.round(b, digits), f) for t, b, f in plain]
        if any(
            not np.array_equal(W, t[s])
            for (t, _, _), (u, _, _) in zip(plain, rounded, strict=True)
            for s, W in u.items()
        ):
            yield from _made(case, rounded)
        if isinstance(r, Box) and not np.array_equal(np.round(r.lo, digits), r.lo):
            yield replace(case, region=Box.from_bounds(np.round(r.lo, digits), np.round(r.hi, digits)))
        if isinstance(r, Polytope) and not np.array_equal(np.round(r.A, digits), r.A):
            yield replace(case, region=Polytope(r.base, np.round(r.A, digits), np.round(r.b, digits)))
    zeroed = [(t, np.zeros_like(b), f) for t, b, f in plain]
    if any(np.any(b) for _, b, _ in plain):
        yield from _made(case, zeroed)
