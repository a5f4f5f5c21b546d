"""A few examples out of a pipeline's raw data, as its first steps would make them: the process that prepares them.

What lies in the folder is found as ExampleGen finds it: CSV files, folders `train` and `eval` of TFRecords, or
TFRecords. TFDV infers the schema from the sample, and Transform runs on it if the module has a preprocessing_fn.
"""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from .. import file_io
from ..errors import InputError, TrainerError
from ..module_loader import loaded
from ..module_source import ModuleSource
from . import sample, trial
from .example_facts import facts_of, label_problem
from .request import CheckRequest
from .verdicts import FAILED, PASSED, Verdict

_ROWS = 600  # of CSV: enough for quantiles and vocabularies, and Transform takes seconds whatever the number is
_EVERY = 3  # of the rows one is for evaluation, as ExampleGen has it
_KINDS = (int, float, str)


def execute(state: dict[str, Any]) -> dict[str, Any]:
    """Prepares a sample of the raw data of a request.

    Returns:
      `fn_args`, what of them is to be set, and `records_per_sampled`; {} when a verdict says what is wrong.
    """
    request = CheckRequest.from_json(state["check"])
    source = ModuleSource.of(state["source"]) if state["source"] else None
    with open(state["events"], "a", encoding="utf-8") as events:

        def say(verdict: Verdict) -> None:
            events.write(json.dumps({"verdict": verdict.to_json()}, default=str) + "\n")
            events.flush()

        item = "data"
        try:
            splits, factor = _read(request.data, state["folder"])
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
            prepared[f"{split}_files"] = [_write(records, os.path.join(state["folder"], split))]
        return {"fn_args": prepared, "records_per_sampled": factor}


def _verdict(item: str, error: BaseException, source: ModuleSource | None, request: CheckRequest) -> Verdict:
    """Returns the verdict on an exception; one that came through Beam has the module's as its cause, or as text."""
    verdict = trial.failure(item, error, source, request.fn_args)
    if isinstance(error, TrainerError):
        return verdict
    text = verdict.text.partition(" [while running")[0]
    return Verdict(**{**vars(verdict), "status": FAILED, "text": text})


def _read(data: str, folder: str) -> tuple[dict[str, list[bytes]], float]:
    """Returns serialized tf.Examples by split, and how many there are in all for each of them."""
    if not file_io.exists(data):
        raise InputError(f"--data {data} does not exist.")
    names = file_io.listdir(data) if file_io.isdir(data) else [os.path.basename(data)]
    base = data if file_io.isdir(data) else file_io.parent(data)
    files = [os.path.join(base, name) for name in names if not name.startswith((".", "_"))]
    if tables := [path for path in files if path.endswith(".csv")]:
        records, whole = _from_csv(tables)
        return _split(records), whole
    if {"train", "eval"} <= {os.path.basename(path) for path in files}:
        taken = {
            split: sample.take([os.path.join(base, split, "*")], os.path.join(folder, "sample", split))
            for split in ("train", "eval")
        }
        factor = taken["train"].estimated_records / max(1, len(taken["train"].records))
        return {split: one.records for split, one in taken.items()}, factor
    records_files = [path for path in files if not file_io.isdir(path)]
    if not records_files:
        raise InputError(f"--data {data} holds no CSV file, no TFRecord file, and no folders train/ and eval/.")
    one = sample.take(records_files, os.path.join(folder, "sample", "all"))
    return _split(one.records), one.estimated_records / max(1, len(one.records))


def _split(records: Sequence[bytes]) -> dict[str, list[bytes]]:
    train = [record for number, record in enumerate(records) if number % _EVERY != _EVERY - 1]
    return {"train": train, "eval": list(records[_EVERY - 1 :: _EVERY]) or train}


def _from_csv(paths: Sequence[str]) -> tuple[list[bytes], float]:
    """Returns rows of CSV files as tf.Examples, typed as CsvExampleGen types columns; and rows in all for each."""
    rows: list[list[str]] = []
    header: list[str] = []
    size = read = 0
    for path in paths:
        size += file_io.size_of(path)
        for own, row, length in itertools.islice(_rows(path), max(0, _ROWS - len(rows))):
            if header and own != header:
                raise InputError(f"{path} has the columns {', '.join(own)}; {paths[0]} has {', '.join(header)}.")
            header = own
            rows.append(row)
            read += length
    if not rows:
        raise InputError(f"{', '.join(paths)}: there are no rows below the header.")
    columns = list(zip(*rows, strict=True))
    kinds = [next(kind for kind in _KINDS if _fits(kind, column)) for column in columns]
    return [_example(header, kinds, row) for row in rows], max(1.0, size / max(1, read))


def _rows(path: str) -> Iterator[tuple[list[str], list[str], int]]:
    """Yields (header, row, bytes) of a CSV file."""
    with file_io.file_system(path).open(path, mode="rb") as raw:
        reader = csv.reader(io.TextIOWrapper(raw, encoding="utf-8", newline=""))
        header = next(reader, [])
        for row in reader:
            if row and len(row) != len(header):
                raise InputError(f"{path}, line {reader.line_num}: {len(row)} values, and {len(header)} columns.")
            if row:
                yield header, row, sum(map(len, row)) + len(row)


def _fits(kind: type, values: Sequence[str]) -> bool:
    try:
        for value in values:
            if value:
                kind(value)
    except ValueError:
        return False
    return True


def _example(header: Sequence[str], kinds: Sequence[type], row: Sequence[str]) -> bytes:
    import tensorflow as tf

    features = {}
    for name, kind, value in zip(header, kinds, row, strict=True):
        if not value:
            features[name] = tf.train.Feature()
        elif kind is int:
            features[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=[int(value)]))
        elif kind is float:
            features[name] = tf.train.Feature(float_list=tf.train.FloatList(value=[float(value)]))
        else:
            features[name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()]))
    serialized: bytes = tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()
    return serialized


def _infer(splits: dict[str, list[bytes]], folder: str) -> str:
    """Infers a schema, as SchemaGen does, and writes it."""
    import tensorflow_data_validation as tfdv
    import tfx  # noqa: F401  (TFDV 1.16 wants what it patches)
    from google.protobuf import text_format
    from tensorflow_data_validation.statistics import stats_impl, stats_options
    from tfx_bsl.coders import example_coder

    decode = example_coder.ExamplesToRecordBatchDecoder().DecodeBatch
    statistics = stats_impl.generate_statistics_in_memory(decode(splits["train"]), stats_options.StatsOptions())
    schema = tfdv.infer_schema(statistics, infer_feature_shape=True)
    path = os.path.join(folder, "schema.pbtxt")
    os.makedirs(folder, exist_ok=True)
    file_io.write_text(path, text_format.MessageToString(schema))
    return path


def _write(records: Sequence[bytes], folder: str) -> str:
    """Writes a split as ExampleGen and Transform do; returns the pattern that finds it."""
    import tensorflow as tf

    os.makedirs(folder, exist_ok=True)
    with tf.io.TFRecordWriter(os.path.join(folder, "examples-00000-of-00001.gz"), "GZIP") as writer:
        for record in records:
            writer.write(record)
    return os.path.join(folder, "*")
