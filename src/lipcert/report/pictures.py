"""Inputs that are pictures, in the order of the data: nothing is picked by hand. They are PNG files inside the page."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
from numpy.typing import NDArray

from lipcert.chart.markup import Markup, tag, together, void
from lipcert.chart.numbers import count, down, up
from lipcert.robustness.decision import ATTACKED, CERTIFIED, UNDECIDED
from lipcert.robustness.result import Certification
from lipcert.rounding import Array

_SHOWN = 16
_LARGEST = 96  # pixels of one side in the page; larger pictures are thinned out
_SHELVES = ((CERTIFIED, "Proved robust"), (UNDECIDED, "Undecided"), (ATTACKED, "Attacked"))


def galleries(result: Certification) -> Markup | None:
    """Certified, undecided and attacked inputs, the latter beside a counterexample where one was kept; None when the
    inputs are no pictures.
    """
    if result.data.image_shape is None or not result.data.inputs.size:
        return None
    status, span = result.status(), result.domain or _range(result.data.inputs)
    shelves = []
    for code, title in _SHELVES:
        found = np.flatnonzero(status == code)
        shown = [int(k) for k in found[found < len(result.data)][:_SHOWN]]
        pairs = code == ATTACKED
        if pairs and len(result.counterexamples.points):
            title += ": the input, and beside it a counterexample"
        items = [_item(result, k, span, with_example=pairs) for k in shown]
        shelves.append(_shelf(title, items, found.size, pairs=pairs))
    return together(shelves)


def _shelf(title: str, items: list[Markup], total: int, *, pairs: bool) -> Markup:
    shown = f"The first {len(items)} of {count(total)}, in the order of the data." if items else "None to show."
    shelf = [tag("ul", *items, class_="gallery pairs" if pairs else "gallery")] if items else []
    return together([tag("h3", title), tag("p", shown, class_="soft"), *shelf])


def _item(result: Certification, k: int, span: tuple[float, float], *, with_example: bool) -> Markup:
    shape = result.data.image_shape or ()
    pictures = [_picture(pixels_of(result.data.inputs[k], shape, *span), f"input {k}, label {result.labels[k]}")]
    example = result.counterexample(k) if with_example else None
    if example is not None:
        becomes = result.counterexample_class(k)
        words = f"counterexample to input {k}" + ("" if becomes is None else f", which gets class {becomes}")
        pictures.append(_picture(pixels_of(example, shape, *span), words))
    return tag("li", tag("figure", tag("div", *pictures, class_="pictures"), _caption(result, k)))


def _picture(pixels: NDArray[np.uint8], words: str) -> Markup:
    address = "data:image/png;base64," + base64.b64encode(png(pixels)).decode("ascii")
    return void("img", src=address, alt=words, width=pixels.shape[1], height=pixels.shape[0])


def _range(inputs: Array) -> tuple[float, float]:
    finite = inputs[np.isfinite(inputs)]
    return float(finite.min(initial=0.0)), float(finite.max(initial=1.0))


def _caption(result: Certification, k: int) -> Markup:
    lines = [tag("strong", f"#{k}"), f" label {result.labels[k]}", void("br")]
    lines.append(f"proved to {down(float(result.certified_radius[k]), 3)}")
    if np.isfinite(result.attack_radius[k]):
        becomes = result.counterexample_class(k)
        words = "" if becomes is None else f": {becomes} is above {result.labels[k]}"
        lines += [void("br"), f"refuted at {up(float(result.attack_radius[k]), 3)}{words}"]
    return tag("figcaption", *lines)


def pixels_of(image: NDArray[np.floating], shape: tuple[int, ...], lo: float, hi: float) -> NDArray[np.uint8]:
    """One flat input as pixels: lo becomes black, hi white; channels may come first or last."""
    picture = image.reshape(shape)
    if picture.ndim == 3:
        picture = np.moveaxis(picture, 0, -1) if picture.shape[-1] not in (1, 3) else picture
        picture = picture[..., 0] if picture.shape[-1] == 1 else picture
    step = -(-max(picture.shape[:2]) // _LARGEST)
    shown = picture[::step, ::step].astype(np.float64)
    with np.errstate(all="ignore"):  # strangers' numbers: what is not finite becomes black
        levels = np.nan_to_num((shown - lo) / ((hi - lo) or 1.0), nan=0.0, posinf=0.0, neginf=0.0)
    return np.rint(255 * np.clip(levels, 0, 1)).astype(np.uint8)


def png(pixels: NDArray[np.uint8]) -> bytes:
    """A PNG file of grey (height, width) or coloured (height, width, 3) pixels."""
    height, width = pixels.shape[:2]
    colour = 2 if pixels.ndim == 3 else 0
    rows = np.zeros((height, 1 + pixels[0].size), dtype=np.uint8)  # the first byte of a row says: no filter
    rows[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
