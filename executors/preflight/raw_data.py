"""A few examples out of a pipeline's raw data, as its first steps would make them: the process that prepares them.

What lies in the folder is found as ExampleGen finds it: CSV files, folders `train` and `eval` of TFRecords, or
TFRecords. TFDV infers the schema from the sample, and Transform runs on it if the module has a preprocessing_fn.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections.abc import Sequence
from typing import Any

from .. import file_io
from ..errors import InputError, TrainerError
from ..module_loader import loaded
from ..module_source import ModuleSource
from . import sample, trial
from .example_facts import facts_of, label_problem
from .raw_csv import csv_examples
from .request import CheckRequest
from .verdicts import FAILED, PASSED, Verdict

_EVERY = 3  # of the rows one is for evaluation, as ExampleGen has it
_FILLED = 8192  # examples; batches of more are rare


def execute(state: dict[str, Any]) -> dict[str, Any]:
    """Prepares a sample of the raw data of a request.

    Returns:
      `fn_args`, what of them is to be set; {} when a verdict says what is wrong.
    """
    request = CheckRequest.from_json(state["check"])
    source = ModuleSource.of(state["source"]) if state["source"] else None
    with open(state["events"], "a", encoding="utf-8") as events:

        def say(verdict: Verdict) -> None:
            events.write(json.dumps({"verdict": verdict.to_json()}, default=str) + "\n")
            events.flush()

        item = "data"
        try:
            splits, totals = _read(request.data, state["folder"])
            schema_path = request.fn_args.schema_path or _infer(splits, state["folder"])
            facts = facts_of(itertools.chain(*splits.values()))
            counts = " and ".join(f"{len(records):,} of {split}" for split, records in splits.items())
            say(Verdict("data", PASSED, f"{counts}, {len(facts)} features: {', '.join(sorted(facts)[:12])}"))
            prepared: dict[str, Any] = {"schema_path": schema_path, "transform_graph_path": None}
            names = set(facts)
            if source:
                item = "transform"
                from .raw_transform import transform

                with contextlib.ExitStack() as stack:
                    module = stack.enter_context(loaded(source))
                    graph, splits = transform(module, splits, schema_path, request.fn_args, state["folder"])
                prepared["transform_graph_path"] = graph
                made = facts_of(itertools.chain(*splits.values()))
                names |= set(made)
                say(Verdict("transform", PASSED, f"on these examples; it gives {', '.join(sorted(made)[:12])}"))
            if request.label and (problem := label_problem(request.label, sorted(names))):
                raise InputError(f"--label: {problem}")
        except (Exception, SystemExit) as error:
            say(_verdict(item, error, source, request))
            return {}
        for split, records in splits.items():
            folder = os.path.join(state["folder"], split)
            prepared[f"{split}_files"] = [_write(records, totals[split], folder)]
        return {"fn_args": {**prepared, "num_examples": totals}}


def _verdict(item: str, error: BaseException, source: ModuleSource | None, request: CheckRequest) -> Verdict:
    """Returns the verdict on an exception; one that came through Beam has the module's as its cause, or as text."""
    verdict = trial.failure(item, error, source, request.fn_args)
    if isinstance(error, TrainerError):
        return verdict
    text = verdict.text.partition(" [while running")[0]
    return Verdict(**{**vars(verdict), "status": FAILED, "text": text})


def _read(data: str, folder: str) -> tuple[dict[str, list[bytes]], dict[str, int]]:
    """Returns serialized tf.Examples by split, and how many there may be in all."""
    if not file_io.exists(data):
        raise InputError(f"--data {data} does not exist.")
    names = file_io.listdir(data) if file_io.isdir(data) else [os.path.basename(data)]
    base = data if file_io.isdir(data) else file_io.parent(data)
    files = [os.path.join(base, name) for name in names if not name.startswith((".", "_"))]
    if tables := [path for path in files if path.endswith(".csv")]:
        return _split(*csv_examples(tables))
    if {"train", "eval"} <= {os.path.basename(path) for path in files}:
        taken = {
            split: sample.take([os.path.join(base, split, "*")], os.path.join(folder, "sample", split))
            for split in ("train", "eval")
        }
        totals = {split: one.estimated_records for split, one in taken.items()}
        return {split: one.records for split, one in taken.items()}, totals
    records_files = [path for path in files if not file_io.isdir(path)]
    if not records_files:
        raise InputError(f"--data {data} holds no CSV file, no TFRecord file, and no folders train/ and eval/.")
    one = sample.take(records_files, os.path.join(folder, "sample", "all"))
    return _split(one.records, one.estimated_records)


def _split(records: Sequence[bytes], total: int) -> tuple[dict[str, list[bytes]], dict[str, int]]:
    """Divides examples as ExampleGen does, two to one."""
    train = [record for number, record in enumerate(records) if number % _EVERY != _EVERY - 1]
    splits = {"train": train, "eval": list(records[_EVERY - 1 :: _EVERY]) or train}
    return splits, {"train": total - total // _EVERY, "eval": total // _EVERY}


def _infer(splits: dict[str, list[bytes]], folder: str) -> str:
    """Infers a schema, as SchemaGen does, and writes it."""
    import tensorflow_data_validation as tfdv
    import tfx  # noqa: F401  (TFDV 1.16 wants what it patches)
    from google.protobuf import text_format
    from tensorflow_data_validation.statistics import stats_impl, stats_options
    from tfx_bsl.coders import example_coder

    records = [record for split in splits.values() for record in split]
    decode = example_coder.ExamplesToRecordBatchDecoder().DecodeBatch
    statistics = stats_impl.generate_statistics_in_memory(decode(records), stats_options.StatsOptions())
    schema = tfdv.infer_schema(statistics, infer_feature_shape=True)
    path = os.path.join(folder, "schema.pbtxt")
    os.makedirs(folder, exist_ok=True)
    file_io.write_text(path, text_format.MessageToString(schema))
    return path


def _write(records: Sequence[bytes], total: int, folder: str) -> str:
    """Writes a split as ExampleGen and Transform do; returns the pattern that finds it.

    Where there are more examples in all, the file is there several times, by links.
    """
    import tensorflow as tf

    os.makedirs(folder, exist_ok=True)
    times = max(1, min(total, _FILLED) // max(1, len(records)))
    names = [os.path.join(folder, f"examples-{number:05d}-of-{times:05d}.gz") for number in range(times)]
    with tf.io.TFRecordWriter(names[0], "GZIP") as writer:
        for record in records:
            writer.write(record)
    for name in names[1:]:
        os.symlink(names[0], name)
    return os.path.join(folder, "*")
