"""The fields of an ONNX file are counted before a parser makes objects of them.

An empty message takes two bytes in a file and a hundred times as many in memory: a small file of nothing else would
fill the machine. So the messages of the file are walked first, along their lengths and without looking at numbers.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from lipcert.errors import FileFormatError

MAX_FIELDS = 2_000_000  # at up to 200 bytes each; a network of 10,000 nodes has some 200,000


def check_fields(data: bytes, kind: Any) -> None:
    """Refuse a message of this kind (a protobuf descriptor) that has too many fields, or that is not one."""
    try:
        count = _count(data, kind)
    except IndexError:
        raise FileFormatError("the file is damaged; export the network again") from None
    if count > MAX_FIELDS:
        raise FileFormatError(f"more than {MAX_FIELDS:,} fields; not a network, or a file made to fill the memory")


def _count(data: bytes, kind: Any) -> int:
    """The number of fields in a message and all messages in it, up to one more than the limit."""
    count, stack = 0, [(0, len(data), kind)]
    while stack and count <= MAX_FIELDS:
        at, end, kind = stack.pop()
        inner = _messages(kind)
        while at < end and count <= MAX_FIELDS:
            count += 1
            tag, at = _varint(data, at)
            match tag & 7:
                case 0:
                    _, at = _varint(data, at)
                case 1:
                    at += 8
                case 2:
                    size, at = _varint(data, at)
                    if (found := inner.get(tag >> 3)) is not None:
                        stack.append((at, at + size, found))
                    at += size
                case 5:
                    at += 4
                case _:
                    raise IndexError("groups are not in ONNX files")
        if at > end:
            raise IndexError("a field goes past the end of its message")
    return count


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number in groups of seven bits, the least first, and where it ends."""
    value = data[at]
    if value < 128:
        return value, at + 1
    value &= 127
    for i in range(1, 10):
        byte = data[at + i]
        value |= (byte & 127) << (7 * i)
        if byte < 128:
            return value, at + i + 1
    raise IndexError("a number of more than ten groups")


@cache
def _messages(kind: Any) -> dict[int, Any]:
    """The fields of a message that are messages themselves, by their numbers."""
    return {field.number: field.message_type for field in kind.fields if field.message_type is not None}
