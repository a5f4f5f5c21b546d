"""Runs batch inference with a SavedModel on files of examples, and writes the predictions to one file.

Examples and predictions are streamed batch by batch, so memory use does not depend on the size of the files. The input
format is derived from the signature and its graph; see `feed.py`.

Usage:

    summary = predict(PredictionRequest.of("serving/", ["eval/*"], "predictions.jsonl"))
    summary.count
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa
import tensorflow as tf
from google.protobuf.message import DecodeError

from ... import plugins
from ...errors import InputError, did_you_mean
from ...inputs.input_format import Batch, ExampleFile
from ...inputs.message_text import closest_names, join_names
from ...runtime.files import file_io
from ...runtime.logs.exceptions import one_line_message
from ..feeding import Feeding
from ..tensor_values import UnreadableTensorError
from . import files
from .classes import PredictedClasses
from .feed import Feed, feed_for, feed_of_records, separator_hint
from .joined_columns import joined_columns
from .request import PredictionRequest
from .signature import ServingSignature, load_signature

_LONGEST = (1 << 31) - 1  # characters of a CSV field


Progress = Callable[[str, float], None]
RowReader = Callable[[str, int], Iterator[list[Any]]]  # (CSV file, size) -> batches of its rows, as a model takes them
# Functions (SavedModel, names of inputs) -> `RowReader`, or None if these inputs do not take rows of CSV files.
_ROW_READERS = "generic_trainer.row_readers"


class SignatureError(InputError):
    """A signature fails on an example that has all required features."""


@dataclasses.dataclass(frozen=True)
class PredictionSummary:
    """Summary of a batch prediction.

    Attributes:
      count: Number of predictions, one for each example.
      signature: Name of the signature that was used.
    """

    count: int
    signature: str


def predict(request: PredictionRequest, progress: Progress = lambda task, position: None) -> PredictionSummary:
    """Writes a prediction for every example, in the examples' order.

    Args:
      request: The model, the examples and the output.
      progress: Called after each batch with a description of the current pass over the files, and the number of bytes
        of the files that it has read.

    Raises:
      InputError: If the model cannot be loaded, or an example does not fit its signature; names file and row. No output
        file is written then, and an existing one is kept.
    """
    signature = load_signature(request.model, request.signature, dict.fromkeys(request.op_packages, ()))
    count, classes = 0, PredictedClasses(request.thresholds, request.class_names)
    with _long_values(), files.opened(request.output, escape_formulas=request.escape_formulas) as predictions:
        reader = _row_reader(request.model, signature)
        joined = joined_columns(
            _batches(request, request.batch_size, "Reading column types", progress) if request.joins else (),
            request.ids,
            with_inputs=request.with_inputs,
        )
        feed = feed_for(signature, request.files) if reader is None else _feed_with_rows(signature, request.files)
        for batch in _batches(request, signature.batch_size or request.batch_size, "Predicting", progress, reader):
            outputs = _answers(signature, feed, batch)
            outputs |= classes.of(outputs)
            predictions.write(outputs, _renamed(joined.of(batch), {*outputs, *files.column_names(outputs)}))
            count += batch.size
    return PredictionSummary(count, signature.name)


def _renamed(columns: Mapping[str, pa.Array], taken: set[str]) -> dict[str, pa.Array]:
    """Prefixes columns of the examples that have the name of an output, such as a label `class`, with `input_`."""
    renamed = {}
    for name, array in columns.items():
        free = name
        while free in taken or (free != name and free in columns):
            free = f"input_{free}"
        renamed[free] = array
    return renamed


def answers_of(signature: ServingSignature, batch: Batch, feeding: Feeding) -> dict[str, np.ndarray]:
    """Runs a signature on a batch of serialized tf.Examples of any size; returns {output: array}.

    Args:
      signature: The signature.
      batch: The examples, with `records` set.
      feeding: The records or features that its inputs get.

    Raises:
      InputError: If an example does not fit the signature, or the signature fails.
    """
    feed = feed_of_records(signature, feeding)
    size = signature.batch_size or batch.size
    parts = [
        dataclasses.replace(batch, first=batch.first + start, size=len(part), records=part)
        for start in range(0, batch.size, size)
        if (part := batch.records[start : start + size])
    ]
    answers = [_answers(signature, feed, part) for part in parts]
    return {name: np.concatenate([answer[name] for answer in answers]) for name in answers[0]}


def _row_reader(model: str, signature: ServingSignature) -> RowReader | None:
    makers = cast("dict[str, Callable[[str, list[str]], RowReader | None]]", plugins.load(_ROW_READERS)).values()
    return next(filter(None, (make(model, list(signature.inputs)) for make in makers)), None)


@contextlib.contextmanager
def _long_values() -> Iterator[None]:
    """Raises the csv module's limit of 131,072 characters a field in the block, for values such as encoded images."""
    before = csv.field_size_limit(_LONGEST)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _batches(
    request: PredictionRequest, size: int, task: str, progress: Progress, reader: RowReader | None = None
) -> Iterator[Batch]:
    done = 0
    for file in request.files:
        read = file.batches(size)
        if reader is not None and file.form.header:
            read = _row_batches(file, reader(file.path, size), read if request.joins else None)
        for batch in read:
            yield batch
            progress(task, done + batch.position)
        done += file_io.size_of(file.path)


def _row_batches(file: ExampleFile, parts: Iterator[list[Any]], rows: Iterator[Batch] | None) -> Iterator[Batch]:
    """Yields a CSV file's rows or lines, as the model takes them, with the columns of `rows`.

    Raises:
      InputError: If `rows` has other rows than `parts`, as for a file without a header.
    """
    first = 1
    for part in parts:
        row = next(rows, None) if rows is not None else Batch(file.path, first, len(part), is_text=True)
        if row is None or row.size != len(part):
            raise InputError(f"{file.path}: --id and --with-inputs need a CSV file with a header, read row by row.")
        yield dataclasses.replace(row, records=part)
        first += len(part)


def _feed_with_rows(signature: ServingSignature, files: Sequence[ExampleFile]) -> Feed:
    rows = feed_of_records(signature, Feeding(tuple(signature.inputs)))
    others = feed_for(signature, [file for file in files if not file.form.header])
    return lambda batch: rows(batch) if batch.is_text else others(batch)


def _answers(signature: ServingSignature, feed: Feed, batch: Batch) -> dict[str, np.ndarray]:
    inputs = _padded(feed(batch), signature.batch_size or batch.size)
    try:
        outputs = signature(inputs)
    except UnreadableTensorError:  # for every example
        raise
    except Exception as error:  # a traced function may raise any exception
        raise _failed(signature, inputs, batch, error) from error
    size = signature.batch_size or batch.size
    for name, value in outputs.items():
        if value.shape[:1] != (size,):
            raise InputError(
                f"The signature {signature.name!r} returns {name} of shape {value.shape} for {size} examples; its "
                "first dimension must be the number of examples."
            )
    return {name: value[: batch.size] for name, value in sorted(outputs.items())}


def _padded(inputs: Mapping[str, np.ndarray], size: int) -> dict[str, np.ndarray]:
    """Pads inputs to `size` examples by repeating the last one, for a fixed batch size at the end of a file."""
    return {name: value[np.minimum(np.arange(size), len(value) - 1)] for name, value in inputs.items()}


def _missing(signature: ServingSignature, batch: Batch) -> tuple[list[str], set[str]]:
    """Returns the features that a signature of serialized examples requires and the first example lacks.

    Also returns the features that it has. Both are empty for signatures and records of other kinds.
    """
    if not signature.served.takes_examples:
        return [], set()
    known = set(batch.columns)
    if batch.records:
        try:
            known = set(tf.train.Example.FromString(batch.records[0]).features.feature)
        except DecodeError:  # a record of another kind
            return [], set()
    if not known.isdisjoint(served.name for served in signature.served.inputs if served.is_parsed):
        return [], set()  # the feature itself has what is parsed
    return sorted(signature.required - known), known


def _failed(
    signature: ServingSignature, inputs: Mapping[str, np.ndarray], batch: Batch, error: Exception
) -> InputError:
    """Returns an error that names the first row on which the signature fails on its own, else the range of rows."""
    missing, known = _missing(signature, batch)
    if missing:
        hint = separator_hint(known) or did_you_mean(missing[0], sorted(known - signature.required))
        return InputError(
            f"{batch.where(0)}: no feature {join_names(missing)}, which the signature {signature.name!r} requires; "
            f"available features: {closest_names(sorted(known)) or 'none'}.{hint} If the model takes transformed "
            "examples, pass Transform's output (transformed_examples), or export a signature that transforms raw "
            "examples."
        )
    where = f"{batch.where(0)} to {batch.first + batch.size - 1}" if batch.size > 1 else batch.where(0)
    for index in range(batch.size if signature.batch_size is None else 0):
        try:
            signature({name: value[index : index + 1] for name, value in inputs.items()})
        except Exception as cause:  # as above
            where, error = batch.where(index), cause
            break
    text = f"{where}: the signature {signature.name!r} fails: {type(error).__name__}: {one_line_message(error)}"
    return SignatureError(text)
