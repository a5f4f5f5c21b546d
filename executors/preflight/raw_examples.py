"""Reads a sample of a pipeline's raw data, infers its schema and writes it, as ExampleGen and SchemaGen do.

Finds the same files as the pipeline's ExampleGen: CSV files, folders `train` and `eval`, or TFRecords.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..compat.tfdv import import_tfdv, statistics_of
from ..inputs.example_kinds import RAW, TRANSFORMED
from ..inputs.tf_examples import write_gzipped
from ..runtime.files import file_io
from ..runtime.files.raw_data_files import SPLITS, raw_data_files
from ..runtime.files.schema import read_schema
from .adaptation import NO
from .example_facts import FeatureFacts
from .raw_csv import csv_examples
from .sample import RAW_EXAMPLES, repeat_files, take

_FOLDERS = {RAW: RAW_EXAMPLES, TRANSFORMED: "Transform/transformed_examples/4"}  # as in TFX
_EVAL_EVERY = 3  # every third row goes to the eval split: ExampleGen's default ratio is 2:1


class Split(NamedTuple):
    """A sample of a split: tf.Examples, their estimated number in the whole data, and problems that a run survives."""

    records: list[bytes]
    total: int
    warnings: list[str]


def read_splits(data: str, folder: str) -> dict[str, Split]:
    """Reads a sample of the raw data in a file or a folder.

    Args:
      data: The file or folder.
      folder: Folder for copies.

    Raises:
      InputError: If the data are missing, empty or damaged.
    """
    files = raw_data_files(data)
    tables = [path for path in files if path.endswith(".csv")]
    if not tables and {os.path.basename(path) for path in files} >= SPLITS:
        patterns = {split: os.path.join(data, split, "*") for split in ("train", "eval")}
        return {
            split: _read(file_io.glob(f"{pattern}.csv"), [pattern], os.path.join(folder, split))
            for split, pattern in patterns.items()
        }
    records, total, warnings = _read(tables, [path for path in files if not file_io.isdir(path)], folder)
    train = [record for number, record in enumerate(records) if number % _EVAL_EVERY != _EVAL_EVERY - 1]
    evaluation = records[_EVAL_EVERY - 1 :: _EVAL_EVERY] or train
    eval_total = total // _EVAL_EVERY
    return {"train": Split(train, total - eval_total, warnings), "eval": Split(evaluation, eval_total, [])}


def _read(tables: Sequence[str], patterns: Sequence[str], folder: str) -> Split:
    """Reads CSV files; without any, the files that match patterns."""
    if tables:
        return Split(*csv_examples(tables))
    taken = take(patterns, folder)
    return Split(taken.records, taken.estimated_records, [])


def infer_schema(splits: Mapping[str, list[bytes]], folder: str, shapes: str) -> str:
    """Infers a schema with TFDV, as SchemaGen does; returns the path of the schema file."""
    from google.protobuf import text_format
    from tfx_bsl.coders import example_coder

    records = list(itertools.chain(*splits.values()))
    statistics = statistics_of(example_coder.ExamplesToRecordBatchDecoder().DecodeBatch(records))
    schema = import_tfdv().infer_schema(statistics, infer_feature_shape=shapes != NO)
    path = os.path.join(folder, "SchemaGen", "schema", "3", "schema.pbtxt")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    file_io.write_text(path, text_format.MessageToString(schema))
    return path


def kinds_of(facts: Mapping[str, FeatureFacts], schema_path: str) -> dict[str, str]:
    """Returns the types of features: from the sample, or from the schema for features that the sample lacks."""
    from tensorflow_metadata.proto.v0.schema_pb2 import FeatureType

    by_schema = {feature.name: FeatureType.Name(feature.type) for feature in read_schema(schema_path).feature}
    return {**by_schema, **{name: fact.kind for name, fact in facts.items()}}


def write_splits(
    kind: str, splits: Mapping[str, Sequence[bytes]], totals: Mapping[str, int], folder: str
) -> dict[str, list[str]]:
    """Writes splits as gzipped TFRecords, as ExampleGen and Transform do; returns the patterns of `fn_args`.

    If the data have more examples than the sample, symbolic links repeat the file.

    Args:
      kind: RAW or TRANSFORMED.
      splits: Serialized tf.Examples by split.
      totals: Number of examples of the whole data by split.
      folder: Folder for all output.
    """
    patterns = {}
    for split, records in splits.items():
        target = os.path.join(folder, _FOLDERS[kind], f"Split-{split}")
        write_gzipped(records, os.path.join(target, "examples.gz"))
        repeat_files(target, len(records), totals[split])
        patterns[f"{split}_files"] = [os.path.join(target, "*")]
    return patterns
