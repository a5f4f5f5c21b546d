"""Subprocess that prepares a sample of a pipeline's raw data, with the results of ExampleGen, SchemaGen and Transform.

Finds the same files as the pipeline's ExampleGen: CSV files, folders `train` and `eval`, or TFRecords. TFDV infers the
schema from the sample, and Transform runs on it if there is a module with a preprocessing_fn.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from tensorflow_metadata.proto.v0.schema_pb2 import FeatureType

from ..compat.tfdv import import_tfdv, statistics_of
from ..dialects.loading import loaded
from ..errors import InputError
from ..evaluation.features import TRANSFORMED_SCHEMA
from ..evaluation.labels import problem_of_labels
from ..inputs.example_kinds import RAW, TRANSFORMED
from ..inputs.tf_examples import write_gzipped
from ..runtime.files import file_io
from ..runtime.files.raw_data_files import SPLITS, raw_data_files
from ..runtime.files.schema import read_schema
from . import trial
from .adaptation import NO
from .events import EventWriter
from .example_facts import facts_of
from .module_checks import require_step_functions
from .raw_csv import csv_examples
from .request import CheckRequest, PartRequest
from .sample import RAW_EXAMPLES, repeat_files, take
from .verdicts import PASSED, WARNING, Verdict

if TYPE_CHECKING:
    from ..evaluation.features import FeatureSummary

_FOLDERS = {RAW: RAW_EXAMPLES, TRANSFORMED: "Transform/transformed_examples/4"}  # as in TFX
_EVAL_EVERY = 3  # every third row goes to the eval split: ExampleGen's default ratio is 2:1


class Prepared(TypedDict, total=False):
    """A sample of raw data, as JSON values; empty after a failure, which is written as a verdict.

    Attributes:
      fn_args: Values to set in `fn_args`: `schema_path`, `transform_graph_path`, and estimated `num_examples`.
      examples: {"raw" and, with a Transform, "transformed": {"train_files": …, "eval_files": …}}.
      kinds: {the same keys: {feature: "BYTES", "FLOAT" or "INT"}}.
      features: {the same keys: {feature: statistics}}.
    """

    fn_args: dict[str, object]
    examples: dict[str, dict[str, list[str]]]
    kinds: dict[str, dict[str, str]]
    features: dict[str, dict[str, FeatureSummary]]


def execute(state: dict[str, object]) -> Prepared:
    """Entry point of the process: prepares a sample of the raw data of a `PartRequest`."""
    request = PartRequest.from_json(state)
    events = EventWriter(request.folder)
    preparation = _Preparation(request.check, request.folder)
    try:
        return preparation.run(events)
    except (Exception, SystemExit) as error:
        source = request.check.modules.transform if request.check.modules else None
        verdict = trial.failure(preparation.item, error, source, request.check.fn_args)
        text = verdict.text.partition(" [while running")[0]  # which Beam appends to messages
        events.verdict(dataclasses.replace(verdict, text=text))
        return {}


class _Split(NamedTuple):
    """A sample of a split: tf.Examples, their estimated number in the whole data, and problems that a run survives."""

    records: list[bytes]
    total: int
    warnings: list[str]


class _Preparation:
    """The preparation of raw data.

    Attributes:
      item: The item of the report that is being prepared.
    """

    def __init__(self, check: CheckRequest, folder: str) -> None:
        self.item = "data"
        self._check = check
        self._folder = folder
        self._prepared: Prepared = {"fn_args": {}, "examples": {}, "kinds": {}, "features": {}}

    def run(self, events: EventWriter) -> Prepared:
        """Prepares the data; writes a verdict on each item that passes."""
        check, folder = self._check, self._folder
        read = _read_splits(check.data, os.path.join(folder, "sample"))
        splits = {name: split.records for name, split in read.items()}
        totals = {name: split.total for name, split in read.items()}
        warnings = dict.fromkeys(warning for split in read.values() for warning in split.warnings)
        schema_path = check.fn_args.schema_path or _infer_schema(splits, folder, check.schema_shapes)
        names = self._add(RAW, splits, totals, schema_path)
        counts = " and ".join(f"{len(records):,} {name}" for name, records in splits.items())
        text = f"{counts} examples, {len(names)} features: {', '.join(names[:12])}"
        events.verdict(Verdict("data", WARNING if warnings else PASSED, ". ".join([text, *warnings])))
        modules, graph = check.modules, None
        if modules and modules.transform:
            self.item = "transform"
            from .raw_transform import transform

            with loaded(modules.transform) as module:
                require_step_functions(module, modules.functions_called(modules.transform))
                graph, transformed = transform(module, splits, schema_path, check.fn_args, folder)
            names = self._add(TRANSFORMED, transformed, totals, os.path.join(graph, TRANSFORMED_SCHEMA))
            text = f"applied to these examples; output features: {', '.join(names[:12])}"
            events.verdict(Verdict("transform", PASSED, text))
        features = self._prepared["features"]
        if problem := problem_of_labels(check.label, features[RAW], features.get(TRANSFORMED)):
            raise InputError(f"--label: {problem}")
        self._prepared["fn_args"] = {
            "schema_path": schema_path,
            "transform_graph_path": graph,
            "num_examples": totals,
        }
        return self._prepared

    def _add(
        self, kind: str, splits: Mapping[str, list[bytes]], totals: Mapping[str, int], schema_path: str
    ) -> list[str]:
        """Adds examples of a kind to the prepared data; returns the names of their features."""
        facts = facts_of(itertools.chain(*splits.values()))
        by_schema = {feature.name: FeatureType.Name(feature.type) for feature in read_schema(schema_path).feature}
        self._prepared["features"][kind] = {name: fact.summary() for name, fact in facts.items()}
        # The types of features that the sample lacks are those in the schema.
        self._prepared["kinds"][kind] = {**by_schema, **{name: fact.kind for name, fact in facts.items()}}
        patterns = self._prepared["examples"][kind] = {}
        for split, records in splits.items():
            target = os.path.join(self._folder, _FOLDERS[kind], f"Split-{split}")
            write_gzipped(records, os.path.join(target, "examples.gz"))
            repeat_files(target, len(records), totals[split])
            patterns[f"{split}_files"] = [os.path.join(target, "*")]
        return sorted(facts)


def _read_splits(data: str, folder: str) -> dict[str, _Split]:
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
    return {"train": _Split(train, total - eval_total, warnings), "eval": _Split(evaluation, eval_total, [])}


def _read(tables: Sequence[str], patterns: Sequence[str], folder: str) -> _Split:
    """Reads CSV files; without any, the files that match patterns."""
    if tables:
        return _Split(*csv_examples(tables))
    taken = take(patterns, folder)
    return _Split(taken.records, taken.estimated_records, [])


def _infer_schema(splits: Mapping[str, list[bytes]], folder: str, shapes: str) -> str:
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
