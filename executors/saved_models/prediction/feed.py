"""Converts batches of examples to a signature's inputs: serialized tf.Examples, or one array for each named input."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from ...errors import InputError, did_you_mean
from ...inputs.csv.columns import (
    from_tf_examples,
    inferred_types,
    to_tf_examples,
    typed_columns,
)
from ...inputs.csv.separators import other_separator
from ...inputs.example_files import TF_RECORD, Batch, ExampleFile, batches
from ...inputs.message_text import closest_names
from ..input_names import feature_for
from .arrays import UnfitRowError, arrow_type, input_array
from .signature import ServingSignature

if TYPE_CHECKING:
    import pyarrow as pa

_FIRST_ROWS = 100

Feed = Callable[[Batch], dict[str, np.ndarray]]


def feed_for(signature: ServingSignature, files: Sequence[ExampleFile]) -> Feed:
    """Returns the function that converts a batch to {input: array}.

    A signature with one string input gets serialized tf.Examples if its graph parses records, or if the first examples
    have no feature of the input's name. TFRecords are passed unchanged; rows of other files are converted to
    tf.Examples with the features and types that the graph parses. If these are unknown, all files are read once in
    advance to infer the types. Any other signature gets the features with the names of its inputs.

    Args:
      signature: The signature to run.
      files: All files, for type inference.
    """
    record_input = signature.record_input
    if record_input is None or (signature.parsed is None and _has_feature(files, record_input)):
        return named_feed(signature)
    texts = [file for file in files if file.kind != TF_RECORD]
    types = signature.parsed or inferred_types(texts)
    return lambda batch: {record_input: np.array(_serialized(batch, types), dtype=object)}


def named_feed(signature: ServingSignature) -> Feed:
    """Returns the function that feeds each input of a signature with the feature of the same name."""
    return lambda batch: _named(signature, batch)


def record_feed(signature: ServingSignature) -> Feed:
    """Returns the function that feeds serialized records to a signature's only input."""
    [name] = signature.inputs
    return lambda batch: {name: np.array(batch.records, dtype=object)}


def _serialized(batch: Batch, types: Mapping[str, pa.DataType]) -> list[bytes]:
    return batch.records or to_tf_examples(typed_columns(batch, types), batch.size)


def _has_feature(files: Sequence[ExampleFile], name: str) -> bool:
    batch = next((batch for file in files for batch in batches(file, _FIRST_ROWS)), None)
    if batch is None or batch.file.kind != TF_RECORD:
        return batch is not None and feature_for(name, batch.columns) is not None
    try:
        return feature_for(name, tf.train.Example.FromString(batch.records[0]).features.feature) is not None
    except DecodeError:  # a record of another kind
        return False


def _named(signature: ServingSignature, batch: Batch) -> dict[str, np.ndarray]:
    if batch.file.kind == TF_RECORD:
        columns = from_tf_examples(batch)
        there = list(columns)
        features = {name: feature_for(name, there) or name for name in signature.inputs}
    else:
        there = list(batch.columns)
        features = {name: feature_for(name, there) or name for name in signature.inputs}
        columns = typed_columns(
            batch, {features[name]: arrow_type(spec.dtype) for name, spec in signature.inputs.items()}
        )
    for name, feature in features.items():
        if feature not in columns:
            raise InputError(
                f"{batch.where(0)}: no feature {name!r}, which the signature {signature.name!r} takes; available "
                f"features: {closest_names(sorted(there), near=name) or 'none'}."
                f"{separator_hint(there) or did_you_mean(name, there)}"
            )
    return {
        name: _array(batch, features[name], columns[features[name]], spec) for name, spec in signature.inputs.items()
    }


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
