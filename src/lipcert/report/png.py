"""Small pictures as PNG files inside the page."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
from numpy.typing import NDArray

_LARGEST = 96  # pixels of one side in the page; larger pictures are thinned out


def data_uri(pixels: NDArray[np.uint8]) -> str:
    """The address of a picture that is its own content."""
    return "data:image/png;base64," + base64.b64encode(png(pixels)).decode("ascii")


def png(pixels: NDArray[np.uint8]) -> bytes:
    """A PNG file of grey (height, width) or coloured (height, width, 3) pixels."""
    height, width = pixels.shape[:2]
    colour = 2 if pixels.ndim == 3 else 0
    rows = np.zeros((height, 1 + pixels[0].size), dtype=np.uint8)  # the first byte of a row says: no filter
    rows[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def pixels_of(image: NDArray[np.float32], shape: tuple[int, ...], lo: float, hi: float) -> NDArray[np.uint8]:
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


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
