"""Delimited rows become tensors as decode_csv makes them, and a row that does not is named with what is wrong."""

from __future__ import annotations

import contextlib
import gc
import json
import random
import subprocess
import sys
import textwrap
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from generic_trainer.executors.dialects.dlrover.text.delimited import DECODE_ERRORS, Field, decode
from generic_trainer.executors.dialects.dlrover.text.row_checks import check_rows, looks_like_data, split_row
from generic_trainer.executors.errors import InputError
from generic_trainer.executors.inputs.tfrecord.scan import ParseTrial

WHOLE = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]
DTYPES = [*WHOLE, *FLOATS, "bool", "string"]
X_AND_Y = [Field("x", "float32"), Field("y", "int32")]


def values(tensor: Any) -> Any:
    return (tf.sparse.to_dense(tensor) if isinstance(tensor, tf.SparseTensor) else tensor).numpy().tolist()


def flat(tensor: Any) -> Any:
    return (tensor.values if isinstance(tensor, tf.SparseTensor) else tensor).numpy().tolist()


def refusal(rows: list[bytes], fields: list[Field], **options: Any) -> str:
    """Returns what check_rows says, after decode has refused the rows as well."""
    delims = {name: value for name, value in options.items() if name.endswith("delim")}
    with pytest.raises(DECODE_ERRORS):
        decode(tf.constant(rows), fields, **delims)
    with pytest.raises(InputError) as raised:
        check_rows(rows, fields, **options)
    return str(raised.value)


def test_columns_are_vectors_of_their_types() -> None:
    fields = [Field("a", "float32"), Field("b", "int64"), Field("c", "string")]

    found = decode(tf.constant(["1.5,2,x", '-3e2,-4,"a, ""b"""']), fields)

    assert {name: (values(tensor), tensor.dtype.name) for name, tensor in found.items()} == {
        "a": ([1.5, -300.0], "float32"),
        "b": ([2, -4], "int64"),
        "c": ([b"x", b'a, "b"'], "string"),
    }


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_empty_field_is_nothing_of_its_type(dtype: str) -> None:
    found = decode(tf.constant([",1", "1,1"]), [Field("a", dtype), Field("b", "int32")])["a"]

    assert found.dtype.name == dtype
    assert found.shape == [2]
    assert values(found) == {"string": [b"", b"1"], "bool": [False, True]}.get(dtype, [0, 1])


@pytest.mark.parametrize("dtype", WHOLE)
@pytest.mark.parametrize("is_sparse", [False, True])
def test_whole_numbers_of_every_width_are_read_and_never_wrap(dtype: str, is_sparse: bool) -> None:
    fields = [Field("a", dtype, is_sparse)]
    least, most = int(tf.as_dtype(dtype).min), int(tf.as_dtype(dtype).max)
    rows = [b"%d" % number for number in (least, most, 7, 0)] + [b" 007 "]

    found = decode(tf.constant(rows), fields)["a"]
    check_rows(rows, fields)

    assert found.dtype.name == dtype
    assert flat(found) == [least, most, 7, 0, 7]
    for beyond in (least - 1, most + 1, 10 * most, -(10**25)):
        assert f"is '{beyond}', which is outside the range of {dtype}" in refusal([b"1", b"%d" % beyond], fields)
    for text in (b"1.5", b"x", b" ", b"0x10", b"1 2", b"--1"):
        assert f"which is not a whole number; the column is {dtype}" in refusal([b"1", text], fields)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("is_sparse", [False, True])
def test_numbers_of_every_precision_are_read(dtype: str, is_sparse: bool) -> None:
    fields = [Field("a", dtype, is_sparse)]
    rows = [b"1.5", b"-2", b"1e3", b" .25", b"+4.", b"0x10", b"inf", b"-inf", b"NaN"]

    found = decode(tf.constant(rows), fields)["a"]
    check_rows(rows, fields)

    assert found.dtype.name == dtype
    expected = [1.5, -2, 1000, 0.25, 4, 16, np.inf, -np.inf, np.nan]
    np.testing.assert_array_equal(flat(found), expected)
    two = [*fields, Field("b", "string")]
    for text in (b"x", b"1,5", b"1e", b"1.2.3"):
        assert f"which is not a number; the column is {dtype}" in refusal([b"1;", text + b";"], two, delim=";")


@pytest.mark.parametrize("text", ["65536", "-1e6", "1e39"])
def test_half_precision_does_not_become_infinite(text: str) -> None:
    assert f"the field 'a' is '{text}', which is outside the range of float16" in refusal(
        [text.encode()], [Field("a", "float16")]
    )


@pytest.mark.parametrize("is_sparse", [False, True])
def test_truth_is_0_1_true_or_false(is_sparse: bool) -> None:
    fields = [Field("a", "bool", is_sparse)]
    rows = [b"0", b"1", b"true", b"False", b" TRUE ", b"false"]

    assert flat(decode(tf.constant(rows), fields)["a"]) == [False, True, True, False, True, False]
    check_rows(rows, fields)
    for text in (b"2", b"yes", b" ", b"t"):
        assert "which is not one of 0, 1, true and false" in refusal([text], fields)


def test_a_sparse_column_has_as_many_values_as_there_are() -> None:
    fields = [Field("tags", "string", is_sparse=True), Field("sizes", "float32", is_sparse=True), Field("y", "int32")]
    rows = ["a\x01b\x01c,1.5,1", ",,2", "d,2\x01-3,3"]

    found = decode(tf.constant(rows), fields)
    check_rows([row.encode() for row in rows], fields)

    assert isinstance(found["tags"], tf.SparseTensor)
    assert found["tags"].indices.numpy().tolist() == [[0, 0], [0, 1], [0, 2], [2, 0]]
    assert found["tags"].values.numpy().tolist() == [b"a", b"b", b"c", b"d"]
    assert found["tags"].dense_shape.numpy().tolist() == [3, 3]
    assert values(found["sizes"]) == [[1.5, 0], [0, 0], [2, -3]]
    assert found["sizes"].dtype == tf.float32


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_sparse_column_may_have_no_values_at_all(dtype: str) -> None:
    found = decode(tf.constant([",1", ",2"]), [Field("a", dtype, is_sparse=True), Field("y", "int32")])["a"]

    assert found.dtype.name == dtype
    assert found.dense_shape.numpy().tolist() == [2, 0]


def test_values_may_be_separated_otherwise() -> None:
    fields = [Field("a", "int32", is_sparse=True), Field("b", "string", is_sparse=True)]

    found = decode(tf.constant(["1||2\tx||||y"]), fields, delim="\t", value_delim="||")

    assert (values(found["a"]), values(found["b"])) == ([[1, 2]], [[b"x", b"", b"y"]])


def test_a_non_numeric_value_in_a_sparse_column_is_reported() -> None:
    fields = [Field("a", "int32", is_sparse=True), Field("b", "string")]

    said = refusal([b"1\x012,x", b"3\x01four\x015,x"], fields)

    assert said.startswith(
        "row 1: a value in the field 'a' is 'four', which is not a whole number; the column is int32"
    )
    assert "a value in the field 'a' is ''" in refusal([b"1\x01,x"], fields)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("float", "float64"),
        ("double", "float64"),
        ("int", "int64"),
        ("str", "string"),
        (float, "float64"),
        (int, "int64"),
        (bool, "bool"),
        (str, "string"),
        (bytes, "string"),
        (np.float32, "float32"),
        (np.dtype("uint16"), "uint16"),
        (np.str_, "string"),
        (np.dtype("S7"), "string"),
        (tf.int8, "int8"),
        (tf.string, "string"),
        *[(dtype, dtype) for dtype in DTYPES],
    ],
)
def test_types_may_be_given_by_any_obvious_name(given: Any, name: str) -> None:
    assert Field("a", given).dtype == tf.as_dtype(name)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("flaot32", "the column 'a' has the dtype 'flaot32', which cannot be decoded. Did you mean 'float32'"),
        ("Int64", "Did you mean 'int64'"),
        ("date", "Supported dtypes: float16, .*, uint64, bool, string, float, double, int, str, bytes"),
        (None, "dtype None, which cannot be decoded"),
        (tf.complex64, "complex64"),
        (np.datetime64, "datetime64"),
        (object, "class 'object'"),
        (["float32"], r"\['float32'\]"),
    ],
)
def test_other_types_are_reported_before_anything_is_read(given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Field("a", given)


@pytest.mark.parametrize(
    ("fields", "delim", "value_delim", "message"),
    [
        (X_AND_Y, "", ";", "'' cannot separate fields"),
        (X_AND_Y, "||", ";", "'||' cannot separate fields"),
        (X_AND_Y, '"', ";", "cannot separate fields"),
        (X_AND_Y, "§", ";", "'§' cannot separate fields; use one ASCII character"),
        ([Field("a", "int32", is_sparse=True)], ";", ";", "';' cannot separate the values in a sparse column"),
        ([Field("a", "int32", is_sparse=True)], ",", "", "'' cannot separate the values"),
        ([], ",", ";", "at least one is required"),
        ([*X_AND_Y, X_AND_Y[0]], ",", ";", "names must be unique"),
    ],
)
def test_an_invalid_format_is_reported(fields: list[Field], delim: str, value_delim: str, message: str) -> None:
    for function in (decode, check_rows):
        with pytest.raises(InputError, match=message.replace("|", r"\|")):
            function([b"1,2"], fields, delim, value_delim)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("1", "row 1: it has 1 field separated by ',', but 2 columns are expected (x, y). The row is '1'."),
        ("1,2,3", "row 1: it has 3 fields separated by ',', but 2 columns are expected (x, y). The row is '1,2,3'."),
        ("1;2", "(x, y); with the delimiter ';' there would be 2. The row is '1;2'."),
        ("1\t2", "(x, y); with the delimiter '\\t' there would be 2."),
        ("", "row 1: it is empty, but 2 columns are expected (x, y)."),
        ("x,2", "row 1: the field 'x' is 'x', which is not a number; the column is float32. The row is 'x,2'."),
        ("1,2.0", "row 1: the field 'y' is '2.0', which is not a whole number; the column is int32."),
        ("x,y", "row 1: the field 'x' is 'x'"),
        ('"1"2,3', "row 1: field 1 continues after its closing quote; quotes inside of quotes must be doubled."),
        ('1,"2', "row 1: field 2 starts with a quote but does not end with one."),
        ('1,2"', "row 1: field 2 contains a quote;"),
        ("1,2\n", "row 1: field 2 contains a line end; remove it from the row"),
        ("é,2", "row 1: the field 'x' is 'é'"),
    ],
)
def test_the_first_bad_row_is_named_with_what_is_wrong(row: str, message: str) -> None:
    assert message in refusal([b"1,2", row.encode(), b"bad"], X_AND_Y)


def test_the_place_of_a_row_is_the_callers_to_word() -> None:
    rows = [b"1,2"] * 3000 + [b"1,x"] + [b"bad"] * 5

    said = refusal(rows, X_AND_Y, first=40, where=lambda number: f"train.csv, line {number + 1}")

    assert said.startswith("train.csv, line 3041: the field 'y' is 'x'")


def test_a_long_row_is_cut() -> None:
    said = refusal([b"1," + b"y" * 5000], X_AND_Y)

    assert f"The row is '1,{'y' * 198}'…." in said
    assert len(said) < 600


def test_bytes_that_are_no_text_are_shown_all_the_same() -> None:
    assert r"the field 'x' is '\\xff'" in refusal([b"\xff,2"], X_AND_Y)


def test_a_header_that_was_not_skipped_is_called_one() -> None:
    hint = "It looks like a header, which must be skipped."

    assert refusal([b"x,y", b"1,2"], X_AND_Y).endswith(hint)
    assert refusal([b"sepal.length,Kind of flower,z"], X_AND_Y).endswith(hint)
    assert hint not in refusal([b"x,y", b"1,2"], X_AND_Y, first=1)
    assert hint not in refusal([b"1,2", b"x,y"], X_AND_Y)
    assert hint not in refusal([b"x,3"], X_AND_Y)
    assert hint not in refusal([b""], X_AND_Y)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("1,2", True),
        (b"1.5,-2", True),
        (",2", True),
        (",", False),
        ("x,y", False),
        ("1,y", False),
        ("1,2,3", False),
        ("1", False),
        ("", False),
        ('"1,2', False),
        ("\udcff,2", False),
    ],
)
def test_data_is_distinguished_from_a_header_by_its_numbers(row: Any, expected: bool) -> None:
    assert looks_like_data(row, X_AND_Y) is expected


def test_names_alone_do_not_look_like_data() -> None:
    assert not looks_like_data("a,b", [Field("a", "string"), Field("b", "string")])
    assert looks_like_data("a;1", [Field("a", "string"), Field("b", "bool")], ";")
    assert looks_like_data("1|2", [Field("a", "int32", is_sparse=True)], value_delim="|")
    assert not looks_like_data("1|b", [Field("a", "int32", is_sparse=True)], value_delim="|")


PIECES = [
    *("", "", "", " ", "0", "1", "-1", "+1", "7", "127", "128", "-129", "255", "256", "65535", "65536", "2147483647"),
    *("2147483648", "-2147483649", "4294967296", "9223372036854775807", "9223372036854775808", "18446744073709551615"),
    *("18446744073709551616", "00001", " 12 ", "\t3", "1.5", ".5", "5.", "-0", "1e3", "1E-3", "1e400", "-1e39", "1e"),
    *("1e-400", "nan", "-nan", "NaN", "nan(1)", "inf", "-INF", "infinity", "0x1F", "-0x1p3", "0x", "1_0", "1f", "true"),
    *(
        "FALSE",
        "yes",
        "text",
        "é",
        '"',
        '""',
        '"quoted"',
        '"a,b"',
        '"a""b"',
        '"a"b',
        'a"b',
        '"1"',
        '" 2"',
        '"\n"',
        '"\r\n1"',
    ),
    *("\n", "\r", "1\n", "\n1", "1\x01-2", "\x01", "1\x01", "a\x01b", "\x00", "1\x00", "٣", "\xa01", '"', '"1,', ',"'),
]


def some_row(random: random.Random, count: int) -> bytes:
    """Mostly plain numbers, since a row of many odd fields is hardly ever accepted."""
    count += random.choice([0] * 20 + [-1, 1])
    fields = [
        random.choice(PIECES) if random.random() < 0.4 else str(random.randint(0, random.choice([1, 99])))
        for _ in range(count)
    ]
    return ",".join(fields).encode()


def is_decoded(row: bytes, fields: list[Field]) -> bool:
    try:
        decode(tf.constant([row]), fields)
    except DECODE_ERRORS:
        return False
    return True


@pytest.mark.thorough_but("0", "7")
@pytest.mark.parametrize("seed", range(8))
def test_what_decode_takes_is_what_the_check_takes(seed: int) -> None:
    rng = random.Random(seed)
    fields = [Field(f"c{i}", rng.choice(DTYPES), rng.random() < 0.3) for i in range(rng.randint(1, 4))]
    rows = [some_row(rng, len(fields)) for _ in range(400)]
    good = [row for row in rows if is_decoded(row, fields)]
    bad = [row for row in rows if row not in set(good)]
    assert good
    assert bad

    check_rows(good, fields)
    for row in rng.sample(bad, min(len(bad), 60)):
        place = rng.randint(0, len(good))
        with pytest.raises(InputError, match=f"^row {place}: "):
            check_rows([*good[:place], row, *good[place:]], fields)


@pytest.mark.parametrize("seed", range(4))
def test_fields_are_split_as_decode_splits_them(seed: int) -> None:
    rng = random.Random(seed)
    fields = [Field(f"c{i}", "string") for i in range(3)]
    rows = [some_row(rng, 3) for _ in range(1000)]
    rows += ["".join(rng.choices('a",\n\r', k=rng.randint(0, 9))).encode() for _ in range(1000)]
    good = [row for row in rows if is_decoded(row, fields)]

    found = decode(tf.constant(good), fields)

    assert len(good) > 500
    assert [split_row(row) for row in good] == [list(texts) for texts in zip(*map(values, found.values()), strict=True)]
    for row in set(rows) - set(good):
        with contextlib.suppress(ValueError):
            assert len(split_row(row)) != 3, row


@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_numbers_have_the_values_that_they_have_in_python(dtype: str) -> None:
    rng = random.Random(1)
    python = {"float64": float, "int64": int}[dtype]
    texts = [repr(rng.gauss(0, 1) * 10 ** rng.randint(-30, 30)) for _ in range(500)]
    texts = texts if dtype == "float64" else [str(rng.randint(-(2 ** rng.randint(1, 63)), 2**62)) for _ in texts]

    assert values(decode(tf.constant(texts), [Field("a", dtype)])["a"]) == list(map(python, texts))


def test_rows_are_decoded_and_refused_in_a_graph() -> None:
    fields = [Field(dtype, dtype) for dtype in DTYPES] + [Field("sparse", "uint64", is_sparse=True)]
    most = [b"127", b"1", b"2", b"3", b"4", b"5", b"6", b"18446744073709551615", b"1.5", b"2.5", b"3.5", b"true", b"x"]

    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        rows = tf.compat.v1.placeholder(tf.string, [None])
        found = decode(rows, fields)
        assert all(found[dtype].shape.as_list() == [None] for dtype in DTYPES)
        read = session.run(found, {rows: [b",".join([*most, b"1\x012"]), b"," * len(DTYPES)]})
        assert [read[dtype][0].item() if dtype != "string" else read[dtype][0] for dtype in DTYPES] == [
            *(127, 1, 2, 3, 4, 5, 6, 18446744073709551615, 1.5, 2.5, 3.5, True, b"x")
        ]
        assert read["sparse"].values.tolist() == [1, 2]
        for place, text in ((0, b"128"), (7, b"18446744073709551616"), (8, b"1e6"), (11, b"maybe"), (13, b"1\x01x")):
            bad = [*most, b"1"]
            bad[place] = text
            with pytest.raises(tf.errors.InvalidArgumentError):
                session.run(found, {rows: [b",".join(bad)]})


def test_a_check_keeps_no_session() -> None:
    for _ in range(2):
        assert looks_like_data("1,2", X_AND_Y)
        assert "the field 'y' is 'b'" in refusal([b"1,2", b"1,b"], X_AND_Y)
    gc.collect()
    assert not [trial for trial in gc.get_objects() if isinstance(trial, ParseTrial)]


@pytest.mark.thorough
def test_rows_are_decoded_and_checked_in_a_program_that_has_switched_to_graphs() -> None:
    program = """
        import json
        import tensorflow as tf
        tf.compat.v1.disable_v2_behavior()
        from generic_trainer.executors.errors import InputError
        from generic_trainer.executors.dialects.dlrover.text.delimited import Field, decode
        from generic_trainer.executors.dialects.dlrover.text.row_checks import check_rows, looks_like_data

        fields = [Field("a", "int8"), Field("b", "float32", is_sparse=True), Field("c", "bool")]
        dataset = tf.data.Dataset.from_tensor_slices(["1,1.5\\x012,true", ",,", "300,,"]).batch(2)
        iterator = tf.compat.v1.data.make_initializable_iterator(dataset.map(lambda rows: decode(rows, fields)))
        batch = iterator.get_next()
        with tf.compat.v1.Session() as session:
            session.run(iterator.initializer)
            found = session.run(batch)
            try:
                session.run(batch)
                refused = False
            except tf.errors.InvalidArgumentError:
                refused = True
        try:
            check_rows([b"1,1,1", b"300,,"], fields)
            said = ""
        except InputError as error:
            said = str(error)
        print(json.dumps([found["a"].tolist(), found["b"].values.tolist(), found["b"].dense_shape.tolist(),
            found["c"].tolist(), refused, said, looks_like_data("1,2,0", fields)]))
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stderr
    said = "row 1: the field 'a' is '300', which is outside the range of int8. The row is '300,,'."
    assert json.loads(ended.stdout) == [[1, 0], [1.5, 2.0], [2, 2], [True, False], True, said, True]
