"""Parses tf.Examples to the columns of a conf, by name.

The dtype of a column defines how text is parsed. A tf.Example has parsed values (int64, float32 or bytes) whose types
may differ from the conf's: TFX's ExampleGen infers int64 for columns with only whole numbers, and for strings of
digits. So a column is parsed with the type in the examples, and then cast to the conf's dtype.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import tensorflow.compat.v1 as tf
from absl import logging
from google.protobuf.message import DecodeError

from ...errors import InputError, did_you_mean
from ...inputs.bad_records import policy
from ...inputs.csv.delimited import Field, split_values
from ...inputs.message_text import closest_names, join_names
from ...inputs.tfrecord.native_records import first_tf_records

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
    for record in first_tf_records(files, _MAX_RECORDS):
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
    examples: tf.Tensor, fields: Sequence[Field], kinds: Mapping[str, tf.DType], value_delim: str
) -> dict[str, tf.Tensor | tf.SparseTensor]:
    """Parses serialized tf.Examples to columns.

    A missing value is treated like an empty field of a row: 0 or "", or an error for a required column.

    Args:
      examples: String vector, [batch].
      fields: The columns.
      kinds: The types in the examples, as returned by `infer_kinds`; other columns default to the type closest to their
        dtype.
      value_delim: The separator between values in the text of a sparse column.

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
    return {field.name: _to_column(parsed[field.name], field, value_delim) for field in fields}


def join_values(values: tf.SparseTensor, delim: str) -> tf.Tensor:
    """Joins the values in each row of a SparseTensor to one string, in the format of a field in a row of text."""
    text = values.values
    if text.dtype.is_floating:
        text = tf.strings.as_string(text, precision=_DIGITS, scientific=True)
    elif text.dtype != tf.string:
        text = tf.strings.as_string(text)
    rows = tf.RaggedTensor.from_sparse(tf.SparseTensor(values.indices, text, values.dense_shape))
    return tf.strings.reduce_join(rows, axis=-1, separator=delim)


def _to_column(parsed: tf.Tensor | tf.SparseTensor, field: Field, value_delim: str) -> tf.Tensor | tf.SparseTensor:
    if field.is_sparse:
        if parsed.dtype == tf.string:  # one string with separators, from a CSV field, or a list of values
            return split_values(join_values(parsed, value_delim), field, value_delim)
        return tf.SparseTensor(parsed.indices, _cast(parsed.values, field.dtype), parsed.dense_shape)
    if isinstance(parsed, tf.SparseTensor):  # numbers to convert to text; a missing one becomes ""
        text = _cast(parsed.values, tf.string)
        return join_values(tf.SparseTensor(parsed.indices, text, parsed.dense_shape), value_delim)
    return _cast(parsed if field.is_required else _only_value(parsed, field.name), field.dtype)


def _only_value(padded: tf.Tensor, name: str) -> tf.Tensor:
    """Returns a [batch, n] tensor with n < 2 as a vector, with 0 or "" for rows without a value; asserts that n < 2."""
    several = f"a tf.Example has several values of {name}; this requires a column with is_sparse=True"
    with tf.control_dependencies([tf.debugging.assert_less(tf.shape(padded)[1], 2, message=several)]):
        return tf.pad(padded, [[0, 0], [0, 1]], constant_values="" if padded.dtype == tf.string else 0)[:, 0]


def _cast(values: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    if values.dtype == dtype:
        return values
    if dtype == tf.string:
        return tf.strings.as_string(values, shortest=bool(values.dtype.is_floating))
    return tf.cast(values, dtype)


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
