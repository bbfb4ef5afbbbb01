"""Members of zip files, unpacked up to the size that they declare: a small file cannot take more memory than that.

Python's zipfile unpacks a whole chunk before it looks at the declared size, and its bz2 and lzma members grow a
million times. This module reads stored and deflated members alone, which grow a thousand times at most, and refuses a
member whose contents are longer or shorter than it declares.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from typing import IO

from lipcert.errors import FileFormatError
from lipcert.files.boundary import quoted

_LOCAL = struct.Struct("<4s5H3L2H")  # the local header before a member's data
_SIGNATURE = b"PK\x03\x04"
_ENCRYPTED = 0x1


def packed(file: IO[bytes], member: zipfile.ZipInfo) -> bytes:
    """Read the bytes of a member as they are stored, before decompression."""
    name = quoted(member.filename)
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or member.flag_bits & _ENCRYPTED:
        raise FileFormatError(f"member {name} is neither stored nor deflated; write it with numpy.savez")
    file.seek(member.header_offset)
    head = file.read(_LOCAL.size)
    if len(head) != _LOCAL.size or not head.startswith(_SIGNATURE):
        raise damaged(name)
    *_, name_length, extra_length = _LOCAL.unpack(head)
    file.seek(name_length + extra_length, 1)
    data = file.read(member.compress_size)
    if len(data) != member.compress_size:
        raise damaged(name)
    return data


def unpacked(data: bytes, member: zipfile.ZipInfo, most: int | None = None) -> bytes:
    """Decompress a member and check its size and checksum; with `most`, return only its first bytes.

    At most one byte more than the declared size is decompressed.
    """
    name, size = quoted(member.filename), member.file_size
    wanted = size if most is None else min(most, size)
    if member.compress_type == zipfile.ZIP_STORED:
        if len(data) != size:
            raise lying(name, size)
        found, ended = data[:wanted], True
    else:
        engine = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            found = engine.decompress(data, wanted + 1)  # one byte more shows that the stream is too long
        except zlib.error:
            raise damaged(name) from None
        ended = engine.eof
    if most is not None:
        if len(found) < wanted:
            raise lying(name, size)
        return found[:wanted]
    if len(found) != size or not ended:
        raise lying(name, size)
    if zlib.crc32(found) != member.CRC:
        raise damaged(name)
    return found


def damaged(name: str) -> FileFormatError:
    """The error about a member that cannot be decompressed."""
    return FileFormatError(f"member {name} is damaged; write the file again")


def lying(name: str, size: int) -> FileFormatError:
    """The error about a member that is longer or shorter than it declares."""
    return FileFormatError(f"member {name} declares {size:,} bytes, which it does not hold; write the file again")
