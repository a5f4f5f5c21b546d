"""Rows that Arrow decodes in blocks become what decode_csv makes of them, and the same batch fails."""

from __future__ import annotations

import gc
import pathlib
import random
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from generic_trainer.executors.dialects.dlrover.sharding.range_reader import batches, read_range, read_ranges
from generic_trainer.executors.dialects.dlrover.sharding.shard_ledger import ShardLedger
from generic_trainer.executors.dialects.dlrover.shim.file_reader import FileReader
from generic_trainer.executors.dialects.dlrover.shim.joined_reader import JoinedReader
from generic_trainer.executors.dialects.dlrover.text.delimited import DECODE_ERRORS, Field, decode, raw_columns
from generic_trainer.executors.dialects.dlrover.text.delimited_blocks import BlockDecoder
from generic_trainer.executors.inputs.readers.reader_errors import ReaderErrors

pytestmark = pytest.mark.legacy  # pyarrow is another there, and so are TensorFlow's rules for numbers

WHOLE = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]
DTYPES = [*WHOLE, *FLOATS, "bool", "string"]
ODD = [
    *("", " ", "\t", "0", "-0", "00001", "+1", " 12 ", "\t3", "12\v", "1_0", "1f", "--1", "٣", "\xa01", "127", "128"),
    *("-129", "255", "256", "65535", "65536", "2147483647", "2147483648", "-2147483648", "-2147483649", "4294967296"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "18446744073709551615", "9" * 20),
    *("1.5", ".5", "5.", ".", "-.5e1", "1e3", "1E-3", "1e", "1e+", "1e38", "1e39", "-1e39", "1e400", "1e-400", "1e-40"),
    *("1e-45", "1e-46", "1e-310", "4.9e-324", "2e-324", "65504", "65520", "1e-8", "6e-8", "1.17549435e-38", "1d5"),
    *("nan", "-nan", "NaN", "nan(1)", "inf", "-INF", "+inf", "infinity", "0x1F", "0X1f", "-0x10", "0x1p3", "0x", "x"),
    *("true", "FALSE", "True", "tRuE", " true", "yes", "null", "NULL", "NA", "N/A", "text", "é", "\udcff", "\ufeff1"),
    *('"', '""', '"quoted"', '"a,b"', '"a""b"', '""""', '"a"b', 'a"b', '"1"', '" 2"', '"1" ', ' "1"', '"1', '1"', '",'),
    *("\r", "1\r", "\r1", "\x00", "1\x00", "\x01", "1\x01-2", "1\x01", "a\x01b", "'1'", "\\", "\\,", "#", "1\u2028"),
]


@pytest.fixture(autouse=True, scope="module")
def _little_garbage() -> Iterator[None]:
    """Hides what is there from the search for garbage that pyarrow 10 makes after each error."""
    gc.freeze()
    yield
    gc.unfreeze()


def some_field(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.12:
        return rng.choice(ODD)
    if kind < 0.2:
        return ""
    if kind < 0.6:
        return str(rng.randint(0, rng.choice([1, 99, 10**9])))
    if kind < 0.8:
        return f"{rng.uniform(-1e6, 1e6):.{rng.randint(0, 17)}f}"
    return rng.choice(['"some, text"', "text", '"text"', '""', "0", "1"])


def some_row(rng: random.Random, count: int, delim: str) -> bytes:
    count += rng.choice([0] * 40 + [-1, 1])
    row = delim.join(some_field(rng) for _ in range(count)).encode("utf-8", "surrogateescape")
    return row or b'""'  # a LineFile has no empty rows


class Texts:
    """Decodes texts by decode_csv."""

    def __init__(self, fields: list[Field], delim: str = ",") -> None:
        with tf.Graph().as_default() as graph:
            rows = tf.compat.v1.placeholder(tf.string, [None])
            columns = raw_columns(rows, fields, delim)
            self._decode = tf.compat.v1.Session(graph=graph).make_callable(columns, [rows])

    def columns(self, text: bytes) -> list[Any] | None:
        try:
            return list(self._decode(np.array(text.split(b"\n"), object)))
        except DECODE_ERRORS:
            return None


def check_same(decoder: BlockDecoder, texts: Texts, text: bytes) -> bool:
    """Checks that Arrow's columns are those of decode_csv, bit by bit; returns whether there are any."""
    found, wanted = decoder.columns(text, text.count(b"\n") + 1), texts.columns(text)
    if found is None:
        return False
    assert wanted is not None, text[:200]
    for column, other in zip(found, wanted, strict=True):
        one = column[1][column[0]] if isinstance(column, tuple) else column
        assert one.dtype == other.dtype, text[:200]
        assert one.tolist() == other.tolist() if one.dtype == object else one.tobytes() == other.tobytes(), text[:200]
    return True


@pytest.mark.thorough_but(",")
@pytest.mark.parametrize("delim", [",", "\t", "x", "0"])
def test_arrow_decodes_as_decode_csv_does_or_leaves_it_to_it(delim: str) -> None:
    rng = random.Random(delim)
    taken = refused = 0
    for _ in range(5):
        kinds = [rng.choice(DTYPES) for _ in range(rng.randint(1, 4))]
        fields = [Field(f"c{i}", kind, rng.random() < 0.2) for i, kind in enumerate(kinds)]
        decoder, texts = BlockDecoder(fields, delim), Texts(fields, delim)
        for _ in range(400):
            rows = [some_row(rng, len(fields), delim) for _ in range(rng.choice([1, 1, 1, 2, 5]))]
            if check_same(decoder, texts, b"\n".join(rows)):
                taken += 1
            else:
                refused += 1
    assert taken > 200
    assert refused > 200


@pytest.mark.parametrize("dtype", DTYPES)
def test_odd_values_of_every_type_are_as_decode_csv_has_them(dtype: str) -> None:
    fields = [Field("a", dtype), Field("b", "string")]
    decoder, texts = BlockDecoder(fields), Texts(fields)
    taken = {
        odd
        for odd in ODD
        for row in (f"{odd},b", f'"{odd}",b')
        if check_same(decoder, texts, f"1,x\n{row}\n2,y".encode("utf-8", "surrogateescape"))
    }

    assert {"", "0", "00001", "127", "true"} & taken >= ({""} if dtype != "string" else {"", "true"})
    assert len(taken) > 3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floats_have_the_same_bits(dtype: str) -> None:
    rng = random.Random(7)
    fields = [Field("a", dtype)]
    decoder, texts = BlockDecoder(fields), Texts(fields)
    drawn = [struct.unpack("<d", rng.randbytes(8))[0] for _ in range(4000)]
    drawn += [rng.gauss(0, 1) * 10.0 ** rng.randint(-30, 30) for _ in range(4000)]
    singles = [abs(number) for number in map(float, np.float32(drawn[4000:]))]
    # Halfway between two float32, and a little beside it: where rounding twice would show.
    halves = [(one + float(np.nextafter(np.float32(one), np.float32(np.inf)))) / 2 for one in singles]
    written = [repr(number) for number in drawn] + [f"{number:.6g}" for number in drawn]
    written += [f"{half:.40f}{end}" for half in halves if half < 1e9 for end in ("", "1")]
    written += [f"{half * (1 - 1e-16):.17g}" for half in halves]
    ordinary = [text for text in written if 1.2e-38 < abs(float(text)) < 3e38]

    assert len(ordinary) > 15000
    short = [text for text in ordinary if len(text) < 32]  # TensorFlow 2.15 takes no longer ones
    assert check_same(decoder, texts, "\n".join(short).encode())
    for text in [text.encode() for text in ordinary if len(text) >= 32][:200]:
        assert check_same(decoder, texts, text) == (texts.columns(text) is not None)


TAGS = ["a\x01b", "", ""]
ROWS = [f'{i},{i / 7:.4f},"name {i % 5}",{i % 2},{TAGS[i % 3]},{i % 100}'.encode() for i in range(3000)]
FIELDS = [
    Field("i", "int64"),
    Field("x", "float32"),
    Field("name", "string"),
    Field("is_odd", "bool"),
    Field("tags", "string", is_sparse=True),
    Field("small", "int8"),
]


def read(dataset: Any) -> tuple[list[Any], Any]:
    """Returns the batches of a dataset, as lists, and the error that ended it."""
    found = []
    try:
        for batch in dataset:
            found.append([repr(tensor.numpy().tolist()) for tensor in tf.nest.flatten(batch, expand_composites=True)])
    except DECODE_ERRORS as error:
        return found, type(error)
    return found, None


def both_ways(reader: Any, size: int, shard: int, batch_size: int) -> Iterator[tuple[list[Any], Any]]:
    decoder = BlockDecoder(FIELDS)
    ledgers = [ShardLedger(size, shard, 2) for _ in range(2)]
    columns = decoder.batches(lambda: read_ranges(reader, ledgers[0], read=decoder.read), ReaderErrors(), batch_size)
    yield read(columns.map(decoder.decode, tf.data.AUTOTUNE))
    rows = batches(lambda: read_ranges(reader, ledgers[1]), ReaderErrors(), batch_size)
    yield read(rows.map(lambda rows: decode(rows, FIELDS), tf.data.AUTOTUNE))
    assert ledgers[0].to_json() == ledgers[1].to_json()


@pytest.mark.parametrize(
    ("change", "batches_before"),
    [
        ({}, 94),
        ({500: b'7,1.5,"say ""hi""",1,,1', 1700: b" 8 ,nan,x, TRUE ,,1", 2999: b"12,1,,,,"}, 94),
        ({1234: b"no number,1,,,,"}, 19),
        ({1234: b"1,1,,,,128"}, 19),
        ({1234: b"1,2,3"}, 19),
        ({1234: b"1,2,a,1,,1" + b",7" * 5000}, 19),
        ({1234: b'1,2,"3\n4",1,,'}, 19),
        ({1234: b"1,2,\xff,1,,1"}, 94),
    ],
)
def test_the_same_batches_come_and_the_same_one_fails(
    tmp_path: pathlib.Path, change: dict[int, bytes], batches_before: int
) -> None:
    rows = [change.get(number, row) for number, row in enumerate(ROWS)]
    file = tmp_path / "rows.csv"
    file.write_bytes(b"the header\r\n" + b"\r\n".join(rows[:2000]) + b"\n\n" + b"\n".join(rows[2000:]) + b"\n")
    reader = FileReader(str(file))

    # 700 rows are no whole number of batches: some have rows of two shards, of which one may be text.
    (found, error), (wanted, wanted_error) = both_ways(reader, 3000, 700, 64)

    assert found == wanted
    assert error is wanted_error
    assert (len(found) >= batches_before) if error is None else (len(found) == batches_before)


def test_rows_of_several_files_come_in_their_order(tmp_path: pathlib.Path) -> None:
    for number in range(3):
        some = ROWS[1000 * number : 1000 * (number + 1)]
        (tmp_path / f"{number}.csv").write_bytes(b"the header\n" + b"\n".join(some))
    reader = JoinedReader([FileReader(str(tmp_path / f"{number}.csv")) for number in range(3)])
    reader.count_data()

    (found, error), (wanted, _) = both_ways(reader, 3000, 700, 64)

    assert error is None
    assert found == wanted
    assert list(filter(None, (reader.read_text(0, 3000) or b"").split(b"\n"))) == ROWS


def test_data_that_arrow_keeps_refusing_is_left_to_decode_csv(tmp_path: pathlib.Path) -> None:
    (tmp_path / "rows.csv").write_bytes(b"\n".join([b"nan"] * 50 + [b"1"] * 50))
    reader, decoder = FileReader(str(tmp_path / "rows.csv"), skip_header=False), BlockDecoder([Field("x", "float32")])

    assert [len(decoder.read(reader, start, start + 10)["rows"]) for start in (0, 10, 20, 50, 0, 10, 20, 30, 50)] == [
        *(10, 10, 10, 0),  # one that it takes after three makes up for them
        *(10, 10, 10, 10, 10),
    ]


def test_a_reader_that_overrides_iterator_is_read_through_it(tmp_path: pathlib.Path) -> None:
    class Doubled(FileReader):
        def read_data_by_index_range(self, start_index: int, end_index: int) -> list[str]:
            return [f"{2 * number},,,,," for number in range(start_index, end_index)]

    class WithoutText:
        def read_range(self, start: int, end: int) -> list[str]:
            return [f"{2 * number},,,,," for number in range(start, end)]

        path = ""

    (tmp_path / "rows.csv").write_bytes(b"\n".join(ROWS))
    reader = Doubled(str(tmp_path / "rows.csv"), skip_header=False)
    decoder = BlockDecoder(FIELDS)

    assert reader.read_text(0, 2) is None
    block = decoder.read(reader, 1, 3)
    assert block["rows"].tolist() == [b"2,,,,,", b"4,,,,,"]
    assert {len(part) for part in tf.nest.flatten(block["columns"])} == {0}
    joined = JoinedReader([FileReader(str(tmp_path / "rows.csv")), WithoutText()])
    joined._ends = [2, 4]
    assert joined.read_text(0, 4) is None
    assert read_range(joined, 2, 4).tolist() == [b"0,,,,,", b"2,,,,,"]
