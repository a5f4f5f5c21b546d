"""RecordIO files equal the Go package's byte for byte; any damage is reported with file and offset."""

from __future__ import annotations

import gzip
import itertools
import pathlib
import random
import re
import struct
import zlib

import pyarrow as pa
import pytest

from generic_trainer.executors.dialects.elasticdl.recordio import records as recordio
from generic_trainer.executors.dialects.elasticdl.recordio import snappy_framing
from generic_trainer.executors.dialects.elasticdl.recordio.records import (
    GZIP,
    MAGIC,
    NO_COMPRESSION,
    SNAPPY,
    RecordWriter,
    read_chunks,
)
from generic_trainer.executors.errors import InputError
from generic_trainer.executors.inputs.checksums import masked_crc32c

COMPRESSORS = {"none": NO_COMPRESSION, "snappy": SNAPPY, "gzip": GZIP}

# Two records, "a" and "", by hand: magic 0x01020304, CRC-32 of the nine payload bytes, compressor 0, 9 bytes,
# 2 records; then the length and the bytes of each. All words are little-endian.
GOLDEN = bytes.fromhex("04030201 105e2055 00000000 09000000 0200000001000000 6100000000")


@pytest.fixture(params=COMPRESSORS.values(), ids=COMPRESSORS)
def compressor(request: pytest.FixtureRequest) -> int:
    return request.param


def some_records(count: int, seed: int = 0) -> list[bytes]:
    """Random bytes and runs of one byte (so that compression has an effect), 0 to 400 bytes long."""
    rng = random.Random(seed)
    return [
        rng.randbytes(rng.randrange(400)) if i % 2 else bytes([rng.randrange(256)]) * rng.randrange(400)
        for i in range(count)
    ]


def write(path: pathlib.Path, records: list[bytes], compressor: int = SNAPPY, chunk_bytes: int = 4000) -> str:
    with RecordWriter(str(path), compressor, chunk_bytes) as writer:
        for record in records:
            writer.write(record)
    return str(path)


def read(path: str, start: int = 0, end: int | None = None) -> list[bytes]:
    return list(itertools.chain.from_iterable(read_chunks(path, start, end)))


def test_the_bytes_of_an_uncompressed_file_match_the_format(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "golden.recordio", [b"a", b""], NO_COMPRESSION)

    assert pathlib.Path(path).read_bytes() == GOLDEN
    assert read(path) == [b"a", b""]


def test_a_snappy_stream_is_an_identifier_and_frames_with_masked_checksums() -> None:
    # "aaaa…" (100): a frame of type 0 and 4 + 9 bytes. Raw snappy is the length 100 (0x64), a literal of one byte (tag
    # 0, "a"), and copies of offset 1: 64 bytes (tag 63 << 2 | 2 = 0xfe) and 35 ones (34 << 2 | 2 = 0x8a).
    stream = snappy_framing.compress(b"a" * 100)

    raw = bytes.fromhex("64 00 61 fe 0100 8a 0100")
    checksum = struct.pack("<I", masked_crc32c(b"a" * 100))
    assert stream == b"\xff\x06\x00\x00sNaPpY" + b"\x00\x0d\x00\x00" + checksum + raw


def test_the_mask_matches_the_framing_format() -> None:
    # CRC-32C of "123456789" is 0xe3069283; rotated right by 15 it is 0x2507c60d, plus 0xa282ead8 is 0xc78ab0e5.
    assert masked_crc32c(b"123456789") == 0xC78AB0E5


def test_snappy_streams_of_other_writers_are_read() -> None:
    block, other = b"left as it is", b"0123456789" * 50
    frames = [
        b"\xfe\x03\x00\x00pad",  # padding
        b"\x80\x01\x00\x00?",  # a reserved chunk type, to be skipped
        b"\x01\x11\x00\x00" + struct.pack("<I", masked_crc32c(block)) + block,
        b"\xff\x06\x00\x00sNaPpY",  # streams may be concatenated
    ]
    body = struct.pack("<I", masked_crc32c(other)) + pa.Codec("snappy").compress(other, asbytes=True)
    frames.append(b"\x00" + len(body).to_bytes(3, "little") + body)

    assert snappy_framing.decompress(b"\xff\x06\x00\x00sNaPpY" + b"".join(frames)) == block + other


@pytest.mark.parametrize(
    ("tail", "what"),
    [
        (b"\x02\x01\x00\x00?", "unknown type 0x02"),
        (b"\x01\x09\x00\x00abcd", "truncated"),
        (b"\x01\x00", "truncated"),
        (b"\x01\x02\x00\x00ab", "too short"),
        (b"\x01\x05\x00\x00\x00\x00\x00\x00x", "checksum"),
        (b"\x00\x09\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\x0f", "declares 4294967295 bytes"),
        (b"\x00\x06\x00\x00\x00\x00\x00\x00\x05\x00", "cannot be decompressed"),
    ],
)
def test_damaged_snappy_streams_are_reported(tail: bytes, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        snappy_framing.decompress(b"\xff\x06\x00\x00sNaPpY" + tail)


def test_written_records_are_read_back(tmp_path: pathlib.Path, compressor: int) -> None:
    records = some_records(300)

    assert read(write(tmp_path / "a.recordio", records, compressor)) == records


def test_records_larger_than_a_snappy_block_or_a_chunk_round_trip(tmp_path: pathlib.Path, compressor: int) -> None:
    records = [b"small", random.Random(1).randbytes(200_000), b"x" * 200_000, b"", b"small"]

    path = write(tmp_path / "a.recordio", records, compressor)

    assert read(path) == records
    assert [chunk.records for chunk in recordio.read_index(path)] == [1, 1, 1, 2]


def test_the_index_contains_offset_and_records_of_every_chunk(tmp_path: pathlib.Path) -> None:
    # Chunks of at most 10 bytes: "aaaa" "bbbb" (8), "cccc" "dd" (6 + 8 > 10), …; a header has 20 bytes, a length 4.
    path = write(tmp_path / "a.recordio", [b"aaaa", b"bbbb", b"cccc", b"dd", b"eeeeeee"], NO_COMPRESSION, 10)

    index = recordio.read_index(path)

    assert [(chunk.offset, chunk.first, chunk.records) for chunk in index] == [(0, 0, 2), (36, 2, 2), (70, 4, 1)]
    assert pathlib.Path(path).stat().st_size == 70 + 20 + 11


def test_an_empty_file_has_no_records(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "a.recordio", [])

    assert recordio.read_index(path) == []
    assert read(path) == []


def test_ranges_are_slices_of_all_records(tmp_path: pathlib.Path, compressor: int) -> None:
    records = some_records(60)
    path = write(tmp_path / "a.recordio", records, compressor, 1500)
    assert len(recordio.read_index(path)) > 3

    for start, end in itertools.product(range(0, 66, 3), [*range(0, 66, 4), None]):
        assert read(path, start, end) == records[start:end]


def test_chunks_before_and_after_a_range_are_not_decoded(tmp_path: pathlib.Path) -> None:
    records = some_records(60)
    path = write(tmp_path / "a.recordio", records, GZIP, 1500)
    index = recordio.read_index(path)
    damaged = bytearray(pathlib.Path(path).read_bytes())
    for chunk in (index[0], index[-1]):
        damaged[chunk.offset + 25] ^= 1
    pathlib.Path(path).write_bytes(damaged)

    assert read(path, index[1].first, index[-1].first) == records[index[1].first : index[-1].first]
    with pytest.raises(InputError):
        read(path, 0, 1)


def test_every_flipped_bit_of_a_payload_is_detected(tmp_path: pathlib.Path, compressor: int) -> None:
    path = pathlib.Path(write(tmp_path / "a.recordio", [*some_records(4), b"0123456789" * 9], compressor))
    intact = path.read_bytes()

    for bit in random.Random(2).sample(range(20 * 8, len(intact) * 8), 400):
        path.write_bytes(flipped(intact, bit))
        with pytest.raises(InputError, match="chunk at byte 0 is damaged: its checksum is"):
            read(str(path))


@pytest.mark.parametrize("count", [1, 5])
def test_every_flipped_bit_of_a_header_is_detected(tmp_path: pathlib.Path, compressor: int, count: int) -> None:
    """The header has no checksum; magic, sizes and counts must match what follows."""
    path = pathlib.Path(write(tmp_path / "a.recordio", some_records(count), compressor))
    intact = path.read_bytes()

    for bit in range(20 * 8):
        path.write_bytes(flipped(intact, bit))
        with pytest.raises(InputError, match=r"a\.recordio: the RecordIO chunk at byte \d+ is damaged"):
            read(str(path))


def flipped(intact: bytes, bit: int) -> bytes:
    damaged = bytearray(intact)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def test_a_file_truncated_anywhere_is_reported_with_the_short_chunk(tmp_path: pathlib.Path) -> None:
    path = pathlib.Path(write(tmp_path / "a.recordio", some_records(20), NO_COMPRESSION, 1500))
    intact = path.read_bytes()
    offsets = [chunk.offset for chunk in recordio.read_index(str(path))]

    for size in random.Random(3).sample(range(1, len(intact)), 200):
        if size in offsets:
            continue  # a file cut between two chunks is valid
        path.write_bytes(intact[:size])
        broken = max(offset for offset in offsets if offset < size)
        with pytest.raises(InputError, match=f"{re.escape(str(path))}.* byte {broken} is damaged.* truncated"):
            read(str(path))


def test_a_payload_that_matches_its_checksum_but_not_its_count_is_reported(tmp_path: pathlib.Path) -> None:
    payload = gzip.compress(b"\x05\x00\x00\x00abc")
    (tmp_path / "a").write_bytes(struct.pack("<4sIIII", MAGIC, zlib.crc32(payload), GZIP, len(payload), 1) + payload)

    with pytest.raises(InputError, match="cannot be decoded: its 1 records take 9 bytes, but it has 7"):
        read(str(tmp_path / "a"))


def test_an_unknown_compressor_is_reported(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a").write_bytes(GOLDEN[:8] + b"\x07" + GOLDEN[9:])

    with pytest.raises(InputError, match=r"its compressor 7 is not one of \[0, 1, 2\]"):
        read(str(tmp_path / "a"))


def test_files_on_other_file_systems_are_read_and_written() -> None:
    records = some_records(50)

    with RecordWriter("ram://recordio/a", GZIP, 1500) as writer:
        for record in records:
            writer.write(record)

    assert read("ram://recordio/a", 10, 40) == records[10:40]
