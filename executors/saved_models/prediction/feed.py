"""Converts a batch of examples to the arrays that a signature takes; see `saved_models.feeding` for the rules.

TFRecords are passed unchanged to inputs that take serialized records; rows of other files are converted to tf.Examples
with the features and types that the graph parses. Inputs that take a feature get its values as one array.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
import pyarrow as pa
import tensorflow as tf
from absl import logging
from google.protobuf.message import DecodeError

from ...errors import InputError, did_you_mean
from ...inputs.csv.columns import (
    BYTES,
    from_tf_examples,
    inferred_types,
    to_tf_examples,
    typed_columns,
)
from ...inputs.csv.separators import other_separator
from ...inputs.input_format import Batch, ExampleFile
from ...inputs.message_text import closest_names, join_names
from ..feeding import Feeding, feeding_of
from .arrays import UnfitRowError, arrow_type, input_array
from .signature import ServingSignature

_FIRST_ROWS = 100

Feed = Callable[[Batch], dict[str, np.ndarray]]


def feed_for(signature: ServingSignature, files: Sequence[ExampleFile]) -> Feed:
    """Returns the function that converts a batch to {input: array}, as the first examples of the files decide.

    Args:
      signature: The signature to run.
      files: All files. If a type of the rows of text files is unknown, they are read once in advance to infer it.

    Raises:
      InputError: If neither records nor a feature fit an input. The function raises it for a batch that lacks a
        feature, or contradicts the decision.
    """
    first = next((batch for file in files for batch in file.batches(_FIRST_ROWS)), None)
    if first is None:
        return lambda batch: {}
    feeding = feeding_of_batch(signature, first, lambda: inferred_types(files))
    if feeding.is_assumed:
        logging.warning("The signature %r: %s.", signature.name, feeding.line())
    types = signature.parsed or (inferred_types(files) if feeding.records else {})
    return _feed(signature, feeding, types)


def feed_of_records(signature: ServingSignature, feeding: Feeding) -> Feed:
    """Returns the function that converts a batch of serialized tf.Examples to {input: array}."""
    return _feed(signature, feeding, {})


def feeding_of_batch(
    signature: ServingSignature, batch: Batch, types: Callable[[], Mapping[str, pa.DataType]]
) -> Feeding:
    """Decides what a signature is fed, by the features of a batch.

    Args:
      signature: The signature.
      batch: Some examples.
      types: Returns the type of each column of a text file, over all of its rows.

    Raises:
      InputError: If neither records nor a feature fit an input; names the file.
    """

    def with_strings() -> list[str]:
        if batch.is_serialized:
            return _with_strings(from_tf_examples(batch))
        return [name for name, kind in types().items() if kind == BYTES]

    try:
        return feeding_of(signature.served, _features_in(batch), with_strings)
    except InputError as error:
        there = list(batch.columns)
        raise InputError(f"{batch.where(0)}: {error}{separator_hint(there)}") from error


def _features_in(batch: Batch) -> list[str] | None:
    """Returns the features of a batch; None if its records are not tf.Examples."""
    if not batch.is_serialized:
        return list(batch.columns)
    try:  # text can be a valid protocol buffer by chance, but then it has no features
        has_features = any(tf.train.Example.FromString(record).features.feature for record in batch.records)
    except DecodeError:
        return None
    return list(from_tf_examples(batch)) if has_features else None


def _with_strings(columns: Mapping[str, pa.ListArray]) -> list[str]:
    kinds = {name: column.type.value_type for name, column in columns.items() if not pa.types.is_null(column.type)}
    return [name for name, kind in kinds.items() if pa.types.is_large_binary(kind) or pa.types.is_binary(kind)]


def _feed(signature: ServingSignature, feeding: Feeding, types: Mapping[str, pa.DataType]) -> Feed:
    def feed(batch: Batch) -> dict[str, np.ndarray]:
        arrays = _named(signature, feeding, batch) if feeding.features else {}
        if feeding.records:
            serialized = np.array(_serialized(batch, types), dtype=object)
            arrays |= dict.fromkeys(feeding.records, serialized)
        return arrays

    return feed


def _serialized(batch: Batch, types: Mapping[str, pa.DataType]) -> list[bytes]:
    return batch.records or to_tf_examples(typed_columns(batch, types), batch.size)


def _named(signature: ServingSignature, feeding: Feeding, batch: Batch) -> dict[str, np.ndarray]:
    specs = {name: signature.inputs[name] for name in feeding.features}
    if batch.is_serialized:
        columns = from_tf_examples(batch)
    else:
        wanted = {feature: arrow_type(specs[name].dtype) for name, feature in feeding.features.items()}
        columns = typed_columns(batch, wanted)
    there = columns if batch.is_serialized else batch.columns
    for feature in feeding.features.values():
        if feature not in there:
            raise InputError(
                f"{batch.where(0)}: no feature {feature!r}, which the signature {signature.name!r} takes; available "
                f"features: {closest_names(sorted(there), near=feature) or 'none'}.{did_you_mean(feature, there)}"
            )
    if feeding.is_assumed:
        _require_only_strings(batch, feeding, columns)
    return {name: _array(batch, feature, columns[feature], specs[name]) for name, feature in feeding.features.items()}


def _require_only_strings(batch: Batch, feeding: Feeding, columns: Mapping[str, pa.ListArray]) -> None:
    [(name, feature)] = feeding.features.items()
    more = [other for other in _with_strings(columns) if other != feature]
    if more or name in batch.columns:
        raise InputError(
            f"{batch.where(0)}: the first examples have only the strings {feature!r} for the input {name!r}, but these "
            f"have {join_names([name] if name in batch.columns else more)}, too. Name the feature {name!r} in all "
            "examples."
        )


def separator_hint(names: Collection[str]) -> str:
    """Returns " Its values are separated by ';'; separate them by commas." if a header was not split; else ""."""
    sep = other_separator(names)
    return f" Its values are separated by {sep!r}; separate them by commas." if sep else ""


def _array(batch: Batch, name: str, column: pa.ListArray, spec: tf.TensorSpec) -> np.ndarray:
    try:
        return input_array(column, spec)
    except UnfitRowError as error:
        raise InputError(
            f"{batch.where(error.row)}: feature {name!r} {error}; the signature takes {spec.dtype.name} {spec.shape}."
        ) from error
