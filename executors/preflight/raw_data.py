"""Subprocess that prepares a sample of a pipeline's raw data, with the results of ExampleGen, SchemaGen and Transform.

Finds the same files as the pipeline's ExampleGen: CSV files, folders `train` and `eval` of TFRecords, or TFRecords.
TFDV infers the schema from the sample, and Transform runs on it if there is a module with a preprocessing_fn.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from ..compat.tfdv import import_tfdv, statistics_of
from ..dialects.loading import loaded
from ..errors import InputError, TrainerError
from ..evaluation.labels import label_problem
from ..evaluation.overrides import parse_labels
from ..inputs.example_kinds import RAW, TRANSFORMED
from ..modules.source import ModuleSource
from ..runtime.files import file_io
from ..runtime.files.raw_data_files import SPLITS, raw_data_files
from ..runtime.files.schema import read_schema
from . import sample, trial
from .adaptation import NO
from .events import EventWriter
from .example_facts import FeatureFacts, facts_of
from .example_records import write_gzipped
from .module_checks import require_step_functions
from .raw_csv import csv_examples
from .request import CheckRequest
from .verdicts import PASSED, WARNING, Verdict

if TYPE_CHECKING:
    from ..evaluation.features import FeatureSummary

_EVAL_EVERY = 3  # every third row goes to the eval split: ExampleGen's default ratio is 2:1
_FOLDERS = {RAW: sample.RAW_EXAMPLES, TRANSFORMED: "Transform/transformed_examples/4"}  # as in TFX
_TARGET_EXAMPLES = 8192  # examples to provide; larger batches are rare


class RawDataRequest(TypedDict):
    """Request to the process, as JSON values.

    Attributes:
      check: A `CheckRequest`; Transform's module is one of its `modules`.
      folder: Folder for all output.
      events: File for verdicts; see `events`.
    """

    check: dict[str, Any]
    folder: str
    events: str


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


def execute(state: RawDataRequest) -> Prepared:
    """Entry point of the process: prepares a sample of the raw data of a request."""
    request = CheckRequest.from_json(state["check"])
    modules = request.modules
    source = modules.transform if modules else None
    with open(state["events"], "a", encoding="utf-8") as file:
        events = EventWriter(file)
        item = "data"
        try:
            splits, totals, warnings = _read(request.data, state["folder"])
            shapes = request.schema_shapes != NO
            schema_path = request.fn_args.schema_path or _infer(splits, state["folder"], shapes)
            facts = facts_of(itertools.chain(*splits.values()))
            counts = " and ".join(f"{len(records):,} {split}" for split, records in splits.items())
            text = f"{counts} examples, {len(facts)} features: {', '.join(sorted(facts)[:12])}"
            events.verdict(Verdict("data", WARNING if warnings else PASSED, ". ".join([text, *warnings])))
            prepared: dict[str, object] = {"schema_path": schema_path, "transform_graph_path": None}
            summaries = {RAW: {name: fact.summary() for name, fact in facts.items()}}
            examples = {RAW: splits}
            kinds = {RAW: _kinds(facts, schema_path)}
            if modules and source:
                item = "transform"
                from .raw_transform import transform

                with loaded(source) as module:
                    require_step_functions(module, modules.functions_called(source))
                    graph, transformed = transform(module, splits, schema_path, request.fn_args, state["folder"])
                prepared["transform_graph_path"] = graph
                transformed_facts = facts_of(itertools.chain(*transformed.values()))
                summaries[TRANSFORMED] = {name: fact.summary() for name, fact in transformed_facts.items()}
                examples[TRANSFORMED] = transformed
                transformed_schema = os.path.join(graph, "transformed_metadata", "schema.pbtxt")
                kinds[TRANSFORMED] = _kinds(transformed_facts, transformed_schema)
                text = f"applied to these examples; output features: {', '.join(sorted(transformed_facts)[:12])}"
                events.verdict(Verdict("transform", PASSED, text))
            for label in parse_labels(request.label).values():
                if problem := label_problem(label, summaries["raw"], summaries.get("transformed")):
                    raise InputError(f"--label: {problem}")
        except (Exception, SystemExit) as error:
            events.verdict(_verdict(item, error, source, request))
            return {}
        files = {
            kind: {
                f"{split}_files": [
                    _write(records, totals[split], os.path.join(state["folder"], _FOLDERS[kind], f"Split-{split}"))
                ]
                for split, records in examples_by_split.items()
            }
            for kind, examples_by_split in examples.items()
        }
        prepared["num_examples"] = totals
        return {"fn_args": prepared, "examples": files, "kinds": kinds, "features": summaries}


def _kinds(facts: Mapping[str, FeatureFacts], schema_path: str) -> dict[str, str]:
    """Returns the types of features: from the sample, or from the schema for features that the sample lacks."""
    from tensorflow_metadata.proto.v0 import schema_pb2

    schema = read_schema(schema_path)
    by_schema = {feature.name: schema_pb2.FeatureType.Name(feature.type) for feature in schema.feature}
    return {**by_schema, **{name: fact.kind for name, fact in facts.items()}}


def _verdict(item: str, error: BaseException, source: ModuleSource | None, request: CheckRequest) -> Verdict:
    """Returns the verdict on an exception, without the "[while running …" that Beam appends to messages."""
    verdict = trial.failure(item, error, source, request.fn_args)
    if isinstance(error, TrainerError):
        return verdict
    text = verdict.text.partition(" [while running")[0]
    return dataclasses.replace(verdict, text=text)


def _read(data: str, folder: str) -> tuple[dict[str, list[bytes]], dict[str, int], list[str]]:
    """Returns serialized tf.Examples, and the estimated total number of examples, by split; and warnings."""
    files = raw_data_files(data)
    if tables := [path for path in files if path.endswith(".csv")]:
        records, total, warnings = csv_examples(tables)
        return *_split(records, total), warnings
    if {os.path.basename(path) for path in files} >= SPLITS:
        tables_of = {split: file_io.glob(os.path.join(data, split, "*.csv")) for split in ("train", "eval")}
        if all(tables_of.values()):
            read = {split: csv_examples(paths) for split, paths in tables_of.items()}
            warnings = list(dict.fromkeys(itertools.chain(*(found for _, _, found in read.values()))))
            totals = {split: total for split, (_, total, _) in read.items()}
            return {split: records for split, (records, _, _) in read.items()}, totals, warnings
        samples = {
            split: sample.take([os.path.join(data, split, "*")], os.path.join(folder, "sample", split))
            for split in ("train", "eval")
        }
        totals = {split: one.estimated_records for split, one in samples.items()}
        return {split: one.records for split, one in samples.items()}, totals, []
    records_files = [path for path in files if not file_io.isdir(path)]
    one = sample.take(records_files, os.path.join(folder, "sample", "all"))
    return *_split(one.records, one.estimated_records), []


def _split(records: Sequence[bytes], total: int) -> tuple[dict[str, list[bytes]], dict[str, int]]:
    """Splits examples two to one, ExampleGen's default ratio."""
    train = [record for number, record in enumerate(records) if number % _EVAL_EVERY != _EVAL_EVERY - 1]
    splits = {"train": train, "eval": list(records[_EVAL_EVERY - 1 :: _EVAL_EVERY]) or train}
    return splits, {"train": total - total // _EVAL_EVERY, "eval": total // _EVAL_EVERY}


def _infer(splits: dict[str, list[bytes]], folder: str, shapes: bool) -> str:
    """Infers a schema with TFDV, as SchemaGen does, with or without shapes; returns the path of the schema file."""
    from google.protobuf import text_format
    from tfx_bsl.coders import example_coder

    records = [record for split in splits.values() for record in split]
    decode = example_coder.ExamplesToRecordBatchDecoder().DecodeBatch
    tfdv = import_tfdv()
    statistics = statistics_of(decode(records))
    schema = tfdv.infer_schema(statistics, infer_feature_shape=shapes)
    path = os.path.join(folder, "SchemaGen", "schema", "3", "schema.pbtxt")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    file_io.write_text(path, text_format.MessageToString(schema))
    return path


def _write(records: Sequence[bytes], total: int, folder: str) -> str:
    """Writes a split as gzipped TFRecords, as ExampleGen and Transform do; returns a pattern for its files.

    If the data have more examples than the sample, symbolic links repeat the file, up to about 8192 examples.
    """
    times = max(1, min(total, _TARGET_EXAMPLES) // max(1, len(records)))
    names = [os.path.join(folder, f"examples-{number:05d}-of-{times:05d}.gz") for number in range(times)]
    write_gzipped(records, names[0])
    for name in names[1:]:
        os.symlink(names[0], name)
    return os.path.join(folder, "*")
