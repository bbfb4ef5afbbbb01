"""Inputs that are pictures, in the order of the data: nothing is picked by hand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lipcert.report.figures import count, down, up
from lipcert.report.job import ATTACKED, CERTIFIED, UNDECIDED, Job, Points
from lipcert.report.markup import Markup, tag, together, void
from lipcert.report.png import data_uri, pixels_of

_SHOWN = 16


@dataclass(frozen=True)
class _Album:
    """The pictures of a job and what is black and white in them."""

    points: Points
    images: NDArray[np.float32]
    shape: tuple[int, ...]
    lo: float
    hi: float

    def picture(self, image: NDArray[np.float32], words: str) -> Markup:
        pixels = pixels_of(image, self.shape, self.lo, self.hi)
        size = {"width": pixels.shape[1], "height": pixels.shape[0]}
        return void("img", src=data_uri(pixels), alt=words, **size)


def galleries(job: Job) -> Markup | None:
    """Certified, undecided and attacked inputs; None when the inputs are no pictures."""
    points = job.points
    if points is None or points.images is None or job.image_shape is None or not points.images.size:
        return None
    finite = points.images[np.isfinite(points.images)]
    lo, hi = job.domain or (float(finite.min(initial=0.0)), float(finite.max(initial=1.0)))
    album = _Album(points, points.images, job.image_shape, lo, hi)
    return together(
        (
            _section(album, CERTIFIED, "Proved robust"),
            _section(album, UNDECIDED, "Undecided"),
            _attacked(album),
        )
    )


def _section(album: _Album, status: int, title: str) -> Markup:
    items = [
        tag("li", tag("figure", album.picture(album.images[k], _words(album, k)), _caption(album, k)))
        for k in _first(album, status)
    ]
    return _shelf(title, items, int((album.points.status == status).sum()), "gallery")


def _attacked(album: _Album) -> Markup:
    """Each attacked input beside its counterexample, where that was kept."""
    owners = album.points.example_index
    kept = {} if owners is None else {k: row for row, k in reversed(list(enumerate(owners.tolist())))}
    items = []
    for k in _first(album, ATTACKED):
        pictures = [album.picture(album.images[k], _words(album, k))]
        if album.points.examples is not None and k in kept:
            pictures.append(album.picture(album.points.examples[kept[k]], f"counterexample to input {k}"))
        items.append(tag("li", tag("figure", tag("div", *pictures, class_="pictures"), _caption(album, k))))
    total = int((album.points.status == ATTACKED).sum())
    title = "Attacked: the input, and beside it a counterexample" if kept else "Attacked"
    return _shelf(title, items, total, "gallery pairs")


def _shelf(title: str, items: list[Markup], total: int, kind: str) -> Markup:
    shown = f"The first {len(items)} of {count(total)}, in the order of the data." if items else "None to show."
    shelf = [tag("ul", *items, class_=kind)] if items else []
    return together([tag("h3", title), tag("p", shown, class_="soft"), *shelf])


def _first(album: _Album, status: int) -> list[int]:
    found = np.flatnonzero(album.points.status[: len(album.images)] == status)
    return [int(k) for k in found[:_SHOWN]]


def _words(album: _Album, k: int) -> str:
    return f"input {k}, label {album.points.labels[k]}"


def _caption(album: _Album, k: int) -> Markup:
    lines = [tag("strong", f"#{k}"), f" label {album.points.labels[k]}", void("br")]
    certified, attacked = float(album.points.certified_radius[k]), float(album.points.attack_radius[k])
    lines.append(f"proved to {down(certified, 3)}")
    if np.isfinite(attacked):
        lines += [void("br"), f"refuted at {up(attacked, 3)}"]
    return tag("figcaption", *lines)
