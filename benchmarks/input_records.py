"""Measures the throughput of `data_accessor.tf_dataset_factory`, compared with TFX's factory and with parsing alone.

    python benchmarks/input_records.py
    python benchmarks/input_records.py --quick

240,000 examples in 8 gzipped TFRecord files are resampled from the 15,002 Chicago taxi trips in TFX's package. Missing
values are filled in, so that the same records fit a schema of sparse features and one of dense features. Both factories
get the same options: shuffling, batches of 512. The dataset is iterated in a tf.function, as in Keras and Estimators;
the cost of wrapping 54 tensors per batch in Python would be the same for both sides. Time counts until the last batch
was received: with tf.data's autotuning, as in TFX, the end of an iterator waits for the autotuner, 2 s in addition to
these 5 s, and up to a minute for long runs. Each pair uses two processes, one for TFX's factory and parsing alone, and
one for ours, because the start of a process takes as long as all measurements of our side in it.

"Parsing alone" is the limit: `tf.io.parse_example` on all cores for batches of serialized records that are in memory.
Reading the records with tf.data's interleave is none: this project's reader is faster with parsing than that without.
The factory reaches 0.4 of the limit. Of 4.6 us of CPU time per example, parsing takes 2.0 (sparse) or 1.7 (dense) and
the rest reading, decompressing, shuffling and batching. Without compression these still take 2.4 instead of 2.2 to 2.7,
so a faster gunzip would not help: tf.data's TFRecordDataset takes 1.9 for each record of an uncompressed file alone.

CPU seconds for 240,000 examples on a busy machine: 2.6 for TFX, mostly for the interleave of single records, each of
which wakes a thread, and with parsing in one thread; 1.2 here, of which reading, decompressing, shuffling and batching
take 0.65 and parsing the rest. With other load (5 on two cores) the ratio to TFX was 3.1 for sparse features and 2.95
(2.4 to 3.1) for dense features. Without improvement: tfx_bsl's decoder to Arrow (1.1 for parsing), ragged features
converted to sparse ones, `parse_example` in a map. Shuffling by windows saves 0.15 but would shuffle less.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import json
import os
import pathlib
import random
import sys
import tempfile
import time
from typing import Any

from pairs import arguments, compare, measure_in_subprocess, read_measurement, report, send

_ROWS, _FILES, _BATCH = 240_000, 8, 512
_QUICK_ROWS = 40_000
_STRINGS = ("payment_type", "company")
_INTEGERS = (
    *("pickup_community_area", "trip_start_month", "trip_start_hour", "trip_start_day", "trip_start_timestamp"),
    *("pickup_census_tract", "dropoff_census_tract", "trip_seconds", "dropoff_community_area"),
)
# (measurement, baseline, the two sides, minimum of their ratio).
_COMPARED = (
    ("examples, sparse features", "TFX's own factory", "ours-sparse", "tfx-sparse", 2),
    ("examples, dense features", "TFX's own factory", "ours-dense", "tfx-dense", 3),
    ("examples, sparse features", "tf.io.parse_example alone, in memory", "ours-sparse", "parse-sparse", 0.9),
    ("examples, dense features", "tf.io.parse_example alone, in memory", "ours-dense", "parse-dense", 0.6),
)
_SIDES = {  # measured in each of the two processes
    "ours": ("ours-sparse", "ours-dense"),
    "peers": ("tfx-sparse", "tfx-dense", "parse-sparse", "parse-dense"),
}


def main() -> None:
    """Compares sparse and dense features with TFX's factory and with parsing alone."""
    options = arguments(__doc__, pairs=3)
    if options.measure == "write":
        send(_write(pathlib.Path(options.folder), _rows(options)))
        return
    if options.measure:
        send({side: _measure(side, options) for side in _SIDES[options.measure]})
        return
    with tempfile.TemporaryDirectory() as options.folder:
        measure_in_subprocess(__file__, "write", options)
        measured: dict[str, list[float]] = {side: [] for sides in _SIDES.values() for side in sides}
        for pair in range(options.pairs):
            for process in sorted(_SIDES, reverse=bool(pair % 2)):
                for side, found in _measure_in_subprocess(process, options).items():
                    measured[side].append(found)
    rows = [
        compare(
            what,
            against,
            options,
            ours=iter(measured[ours]).__next__,
            peer=iter(measured[peer]).__next__,
            unit="/s",
            at_least=least,
        )
        for what, against, ours, peer, least in _COMPARED
    ]
    report(rows, options)


def _measure_in_subprocess(process: str, options: argparse.Namespace) -> dict[str, float]:
    line = [sys.executable, __file__, "--measure", process, "--folder", options.folder]
    found: dict[str, float] = json.loads(read_measurement([*line, "--quick"] if options.quick else line))
    return found


def _measure(side: str, options: argparse.Namespace) -> float:
    maker, _, kind = side.partition("-")
    make = {"ours": _ours, "tfx": _tfx, "parse": _parse}[maker]
    return _examples_per_second(make([f"{options.folder}/*.gz"], _schema(kind)), _rows(options) // _BATCH)


def _rows(options: argparse.Namespace) -> int:
    return _QUICK_ROWS if options.quick else _ROWS


def _examples_per_second(dataset: Any, batches: int) -> float:
    import tensorflow as tf

    @tf.function
    def run(iterator: Any) -> None:
        for _ in tf.range(batches):
            next(iterator)

    iterator = iter(dataset)
    run.get_concrete_function(iterator)  # traces before the measurement
    start = time.perf_counter()
    run(iterator)
    seconds = time.perf_counter() - start
    # The iterator is not exhausted, because its end may wait for the autotuner.
    return batches * _BATCH / seconds


def _dataset_options() -> Any:
    from tfx_bsl.tfxio.dataset_options import TensorFlowDatasetOptions

    return TensorFlowDatasetOptions(batch_size=_BATCH, num_epochs=1, shuffle=True)


def _ours(patterns: list[str], schema: Any) -> Any:
    from generic_trainer.executors.examples_format import ExamplesFormat
    from generic_trainer.executors.inputs.data_accessor import DataAccessor

    return DataAccessor.for_format(ExamplesFormat()).tf_dataset_factory(patterns, _dataset_options(), schema)


def _tfx(patterns: list[str], schema: Any) -> Any:
    from tfx_bsl.tfxio.tf_example_record import TFExampleRecord

    reader = TFExampleRecord(patterns, schema=schema, telemetry_descriptors=["Benchmark"])
    return reader.TensorFlowDataset(_dataset_options())


def _parse(patterns: list[str], schema: Any) -> Any:
    """Returns the parsed batches of serialized records that are in memory."""
    import tensorflow as tf

    from generic_trainer.executors.inputs.tfrecord.record_parsers import ExampleParser

    files = tf.data.Dataset.list_files(patterns)
    serialized = [
        *files.flat_map(lambda path: tf.data.TFRecordDataset(path, "GZIP")).batch(_BATCH, drop_remainder=True)
    ]
    return tf.data.Dataset.from_tensor_slices(tf.stack(serialized)).map(ExampleParser(schema).parse, os.cpu_count())


@dataclasses.dataclass(frozen=True)
class _Column:
    name: str

    @property
    def type(self) -> str:
        """The feature's type in a schema."""
        return "BYTES" if self.name in _STRINGS else "INT" if self.name in _INTEGERS else "FLOAT"

    def feature(self, value: str) -> Any:
        import tensorflow as tf

        if self.type == "BYTES":
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()]))
        if self.type == "INT":
            return tf.train.Feature(int64_list=tf.train.Int64List(value=[int(float(value or 0))]))
        return tf.train.Feature(float_list=tf.train.FloatList(value=[float(value or 0)]))


def _trips() -> list[dict[str, str]]:
    import tfx

    path = os.path.join(os.path.dirname(tfx.__file__), "examples/chicago_taxi_pipeline/data/simple/data.csv")
    with open(path, encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _schema(kind: str) -> Any:
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import schema_pb2

    shape = "presence { min_fraction: 1 } shape { dim { size: 1 } }" if kind == "dense" else ""
    columns = [_Column(name) for name in _trips()[0]]
    text = "\n".join(f'feature {{ name: "{column.name}" type: {column.type} {shape} }}' for column in columns)
    schema = text_format.Parse(text, schema_pb2.Schema())
    return schema


def _write(folder: pathlib.Path, rows: int) -> int:
    """Writes the files; returns the number of rows."""
    import tensorflow as tf

    trips = _trips()
    columns = [_Column(name) for name in trips[0]]
    examples = [tf.train.Example() for _ in trips]
    for example, trip in zip(examples, trips, strict=True):
        for column in columns:
            example.features.feature[column.name].CopyFrom(column.feature(trip[column.name]))
    chosen = random.Random(7)  # noqa: S311 (no secrets: the same data in each run)
    for index in range(_FILES):
        with tf.io.TFRecordWriter(str(folder / f"data-{index}.gz"), "GZIP") as writer:
            for _ in range(rows // _FILES):
                example = chosen.choice(examples)
                # Two random values per row, so that gzip does not find repeated rows.
                example.features.feature["fare"].float_list.value[0] = round(chosen.uniform(3, 90), 2)
                example.features.feature["trip_seconds"].int64_list.value[0] = chosen.randrange(9000)
                writer.write(example.SerializeToString())
    return rows


if __name__ == "__main__":
    main()
