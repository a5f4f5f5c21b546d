"""Snappy's framing format, as written by Go's and Python's stream writers, based on Arrow's codec for raw blocks.

A stream is a stream identifier followed by frames. A frame has a type byte, a 3-byte length and, if it contains data,
the masked CRC-32C of the uncompressed data and at most 64 KiB of data, compressed or not. See google/snappy,
framing_format.txt.

Usage:

    stream = snappy_framing.compress(b"…")
    snappy_framing.decompress(stream)     # raises ValueError if the stream is damaged
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pyarrow as pa

from ....inputs.checksums import masked_crc32c

_IDENTIFIER = b"\xff\x06\x00\x00sNaPpY"
_COMPRESSED, _UNCOMPRESSED, _IDENTIFIER_TYPE = 0x00, 0x01, 0xFF
_SKIPPABLE = range(0x80, 0xFF)  # padding and reserved skippable frame types
_BLOCK_BYTES = 65536
_CHECKSUM = struct.Struct("<I")


def compress(data: bytes) -> bytes:
    """Compresses data to a stream; like Go's writer, stores blocks uncompressed that would shrink by at most 1/8."""
    codec = pa.Codec("snappy")
    parts = [_IDENTIFIER]
    for start in range(0, len(data), _BLOCK_BYTES):
        block = data[start : start + _BLOCK_BYTES]
        body, kind = codec.compress(block, asbytes=True), _COMPRESSED
        if len(body) >= len(block) - len(block) // 8:
            body, kind = block, _UNCOMPRESSED
        length = len(body) + _CHECKSUM.size
        parts += [bytes([kind]), length.to_bytes(3, "little"), _CHECKSUM.pack(masked_crc32c(block)), body]
    return b"".join(parts)


def decompress(stream: bytes) -> bytes:
    """Decompresses a stream.

    Raises:
      ValueError: If the stream is truncated, damaged or not a snappy stream; the message has the frame's byte offset.
    """
    if not stream.startswith(_IDENTIFIER):
        raise ValueError("it does not begin with the identifier of a snappy stream")
    codec = pa.Codec("snappy")
    blocks = []
    for position, kind, body in _frames(stream):
        if kind in (_COMPRESSED, _UNCOMPRESSED):
            blocks.append(_block(codec, position, kind, body))
        elif kind not in _SKIPPABLE and kind != _IDENTIFIER_TYPE:
            raise ValueError(f"the frame at byte {position} has the unknown type {kind:#04x}")
    return b"".join(blocks)


def _frames(stream: bytes) -> Iterator[tuple[int, int, bytes]]:
    position = 0
    while position < len(stream):
        start = position + 4
        end = start + int.from_bytes(stream[position + 1 : start], "little")
        if end > len(stream) or start > len(stream):
            raise ValueError(f"the frame at byte {position} is truncated")
        yield position, stream[position], stream[start:end]
        position = end


def _block(codec: pa.Codec, position: int, kind: int, body: bytes) -> bytes:
    if len(body) < _CHECKSUM.size:
        raise ValueError(f"the frame at byte {position} is too short for its checksum")
    (expected,) = _CHECKSUM.unpack_from(body)
    block = body[_CHECKSUM.size :]
    if kind == _COMPRESSED:
        try:
            block = codec.decompress(block, decompressed_size=_uncompressed_size(block), asbytes=True)
        except (OSError, ValueError) as error:
            raise ValueError(f"the frame at byte {position} cannot be decompressed: {error}") from error
    if masked_crc32c(block) != expected:
        raise ValueError(f"the checksum of the frame at byte {position} is wrong")
    return block


def _uncompressed_size(block: bytes) -> int:
    """Returns the uncompressed size at the start of a raw block, a varint."""
    size = 0
    for index, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            break
    if size > _BLOCK_BYTES:
        raise ValueError(f"it declares {size} bytes; the limit of a frame is {_BLOCK_BYTES}")
    return size
