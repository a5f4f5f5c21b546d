"""Parses tf.Examples to the columns of a conf, by name.

The dtype of a column defines how text is parsed. A tf.Example has parsed values (int64, float32 or bytes) whose types
may differ from the conf's: TFX's ExampleGen infers int64 for columns with only whole numbers, and for strings of
digits. So a column is parsed with the type in the examples, and then cast to the conf's dtype.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import tensorflow.compat.v1 as tf
from absl import logging
from google.protobuf.message import DecodeError

from ...errors import InputError, did_you_mean
from ...inputs.bad_records import policy
from ...inputs.message_text import closest_names, join_names
from ...inputs.tfrecord.framing import frames, intact_records
from .text.delimited import Field, split_values

if TYPE_CHECKING:
    from tensorflow.core.example import feature_pb2

READER = "DLRover"  # the reader's name for `bad_records.policy`
_MAX_RECORDS = 10_000  # records to scan; features in none of them get the conf's type
_KINDS = {"int64_list": tf.int64, "float_list": tf.float32, "bytes_list": tf.string}
_DIGITS = 9  # after the decimal point; more than the precision of float32


class Kinds(dict[str, tf.DType]):
    """The types of columns in tf.Examples: {column: tf.int64, tf.float32 or tf.string}.

    Attributes:
      files: The files that the types were found in.
    """

    def __init__(self, files: Sequence[str], kinds: Mapping[str, tf.DType]) -> None:
        super().__init__(kinds)
        self.files = files


def infer_kinds(files: Sequence[str], fields: Sequence[Field], where: str) -> Kinds:
    """Finds the types of columns in the first 10,000 tf.Examples of TFRecord files.

    Args:
      files: The files.
      fields: The columns.
      where: The data set, for error messages.

    Returns:
      {column: tf.int64, tf.float32 or tf.string}, without columns that these examples do not have.

    Raises:
      InputError: When a type cannot be converted to the column's dtype, or when the examples have none of the columns
        or no label.
    """
    kinds: dict[str, tf.DType] = {}
    for record in itertools.islice(_records(files), _MAX_RECORDS):
        for name, feature in _features(record, files[0]).items():
            if kind := feature.WhichOneof("kind"):
                kinds[name] = _KINDS[kind]
        if all(field.name in kinds for field in fields):
            break
    if not any(field.name in kinds for field in fields):
        raise InputError(
            f"{where}: the examples in {files[0]} have none of the columns {join_names([f.name for f in fields])}; "
            f"they have {join_names(sorted(kinds)) or 'no features'}."
        )
    for field in fields:
        if field.is_required and field.name not in kinds:
            raise InputError(
                f"{where}: the first {_MAX_RECORDS:,} examples in {files[0]} have no value for the label "
                f"{field.name!r}; they have {closest_names(sorted(kinds), near=field.name)}."
                f"{did_you_mean(field.name, kinds)}"
            )
        if field.name not in kinds:
            logging.warning(
                '%s: the first examples in %s have no %r; it is read as 0 or "".', where, files[0], field.name
            )
        kind = kinds.get(field.name, _default_kind(field.dtype))
        if not _is_convertible(kind, field):
            raise InputError(
                f"{where}: the column {field.name!r} has the dtype {field.dtype.name}, but the examples in {files[0]} "
                f"contain {kind.name} values. Set its dtype to {'float32' if kind.is_floating else kind.name!r}."
            )
    return Kinds(files, {field.name: kinds[field.name] for field in fields if field.name in kinds})


def parse_examples(
    examples: tf.Tensor,
    fields: Sequence[Field],
    kinds: Mapping[str, tf.DType],
    value_delim: str,
    *,
    sparse_as_text: bool = False,
) -> dict[str, tf.Tensor | tf.SparseTensor]:
    """Parses serialized tf.Examples to columns.

    A missing value is treated like an empty field of a row: 0 or "", or an error for a required column.

    Args:
      examples: String vector, [batch].
      fields: The columns.
      kinds: The types in the examples, as returned by `infer_kinds`; other columns default to the type closest to their
        dtype.
      value_delim: The separator between values in the text of a sparse column.
      sparse_as_text: Whether to return sparse columns as text, like the fields of rows.

    Returns:
      {name: tensor [batch] of the column's dtype, or SparseTensor [batch, maximum number of values per row]}.
    """
    spec: dict[str, tf.io.FixedLenFeature | tf.io.VarLenFeature | tf.io.FixedLenSequenceFeature] = {}
    for field in fields:
        kind = kinds.get(field.name, _default_kind(field.dtype))
        if field.is_required:
            spec[field.name] = tf.io.FixedLenFeature([], kind)
        elif field.is_sparse or (field.dtype == tf.string and kind != tf.string):
            spec[field.name] = tf.io.VarLenFeature(kind)
        else:  # CsvExampleGen writes features without a value, which FixedLenFeature rejects even with a default
            spec[field.name] = tf.io.FixedLenSequenceFeature([], kind, allow_missing=True)
    parsed = tf.io.parse_example(examples, spec)
    padded = {name: parsed[name] for name, kind in spec.items() if isinstance(kind, tf.io.FixedLenSequenceFeature)}
    with tf.control_dependencies([_assert_single(padded)] if padded else []):
        columns = {field.name: _to_column(parsed[field.name], field, value_delim) for field in fields}
    if sparse_as_text:
        sparse = {name: values for name, values in columns.items() if isinstance(values, tf.SparseTensor)}
        return columns | {name: join_values(values, value_delim) for name, values in sparse.items()}
    for field in fields:
        if field.is_sparse and not isinstance(columns[field.name], tf.SparseTensor):
            columns[field.name] = split_values(columns[field.name], field, value_delim)
    return columns


def join_values(values: tf.SparseTensor, delim: str) -> tf.Tensor:
    """Joins the values in each row of a SparseTensor to one string, in the format of a field in a row of text."""
    text = values.values
    if text.dtype.is_floating:
        text = tf.strings.as_string(text, precision=_DIGITS, scientific=True)
    elif text.dtype != tf.string:
        text = tf.strings.as_string(text)
    rows, _ = tf.unstack(values.indices, num=2, axis=1)
    return tf.strings.unsorted_segment_join(text, rows, values.dense_shape[0], delim)


def _to_column(parsed: tf.Tensor | tf.SparseTensor, field: Field, value_delim: str) -> tf.Tensor | tf.SparseTensor:
    """Returns a parsed column with the conf's dtype; a sparse one whose values are strings as text."""
    if field.is_sparse:
        if parsed.dtype == tf.string:  # one string with separators, from a CSV field, or several values
            return join_values(parsed, value_delim)
        return tf.SparseTensor(parsed.indices, _cast(parsed.values, field.dtype), parsed.dense_shape)
    if isinstance(parsed, tf.SparseTensor):  # numbers to convert to text; a missing one becomes ""
        text = _cast(parsed.values, tf.string)
        return join_values(tf.SparseTensor(parsed.indices, text, parsed.dense_shape), value_delim)
    return _cast(parsed if field.is_required else _only_value(parsed), field.dtype)


def _assert_single(padded: Mapping[str, tf.Tensor]) -> tf.Operation:
    """Asserts that columns, each [batch, n], have n < 2; names those that have more."""
    counts = tf.unstack(tf.stack([tf.shape(values) for values in padded.values()]), num=2, axis=1)[1]
    names = tf.boolean_mask([*padded], counts > 1)
    problem = ["a tf.Example has several values of", names, "; this requires a column with is_sparse=True"]
    return tf.debugging.Assert(tf.reduce_all(counts < 2), problem)


def _only_value(padded: tf.Tensor) -> tf.Tensor:
    """Returns a [batch, n] tensor with n < 2 as a vector, with 0 or "" for rows without a value."""
    return tf.strings.reduce_join(padded, 1) if padded.dtype == tf.string else tf.reduce_sum(padded, 1)


def _cast(values: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    if values.dtype == dtype:
        return values
    if dtype == tf.string:
        return tf.strings.as_string(values, shortest=bool(values.dtype.is_floating))
    return tf.cast(values, dtype)


def _records(files: Sequence[str]) -> Iterator[bytes]:
    """Yields the records of TFRecord files; a damaged one is an error, or left out here and skipped when it is read."""
    for path in files:
        framed = (frame for frame in frames(path) if frame.record is not None or policy(READER) is None)
        yield from intact_records(path, framed)


def _features(record: bytes, file: str) -> Mapping[str, feature_pb2.Feature]:
    try:
        features: Mapping[str, feature_pb2.Feature] = tf.train.Example.FromString(record).features.feature
    except DecodeError as error:
        if policy(READER) is not None:
            return {}  # it is skipped when it is read
        raise InputError(f"{file} is a TFRecord file, but not of tf.Examples: {error}.") from error
    return features


def _default_kind(dtype: tf.DType) -> tf.DType:
    return tf.string if dtype == tf.string else tf.float32 if dtype.is_floating else tf.int64


def _is_convertible(kind: tf.DType, field: Field) -> bool:
    if kind == tf.string:
        return bool(field.dtype == tf.string or field.is_sparse)
    return bool(kind == tf.int64 or not (field.dtype.is_integer or field.dtype == tf.bool))
