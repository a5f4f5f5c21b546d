"""Examples per second of `fn_args.data_accessor.tf_dataset_factory`, against TFX's factory and against bare reading.

    python benchmarks/input_records.py
    python benchmarks/input_records.py --quick

The Chicago taxi trips that come with TFX, 15,002 rows, are drawn from until there are 240,000, in 8 gzipped TFRecord
files; what a row lacks is filled in, so that the same records serve a schema of sparse features and one of dense ones.
Both factories get the same options: shuffled, batches of 512. The dataset is run through inside of a tf.function, as
Keras and Estimators do it; what Python needs to wrap 54 tensors a batch would be the same for both sides. Time counts
until the last batch came, for with tf.data's autotuning on, as in TFX, the end of an iterator waits for the
autotuner: 2 s more for these 5 s, up to a minute for long runs.

Seconds of a core for 240,000 examples, on a busy machine: 2.6 of TFX's, of which the interleave of single records,
each of which wakes a thread, takes most, and one thread does the parsing; 1.2 here, of which reading, gunzipping,
shuffling and batching take 0.65 and parsing the rest. Beside other programs (a load of 5 on two cores)
the ratio to TFX was 3.1 for sparse features and 2.95, between 2.4 and 3.1, for dense ones.
Tried, and no faster: tfx_bsl's own decoder to Arrow (1.1 for the
parsing), ragged features made sparse, `parse_example` in a map. Shuffling by windows saves 0.15 and would shuffle less.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import functools
import os
import pathlib
import random
import tempfile
import time
from typing import Any

from pairs import arguments, compare, in_a_process, report, say

_ROWS, _FILES, _BATCH = 240_000, 8, 512
_QUICK_ROWS = 40_000
_STRINGS = ("payment_type", "company")
_INTEGERS = (
    *("pickup_community_area", "trip_start_month", "trip_start_hour", "trip_start_day", "trip_start_timestamp"),
    *("pickup_census_tract", "dropoff_census_tract", "trip_seconds", "dropoff_community_area"),
)


def main() -> None:
    """Compares dense and sparse features with TFX's factory, and with reading alone."""
    options = arguments(__doc__, pairs=3)
    if options.measure:
        say(_measure(options))
        return
    with tempfile.TemporaryDirectory() as options.folder:
        in_a_process(__file__, "write", options)
        side = functools.partial(_side, options)
        rows = [
            compare(what, against, options, ours=side("ours", kind), peer=side(peer, kind), unit="/s", at_least=least)
            for what, against, kind, peer, least in (
                ("examples, sparse features", "TFX's own factory", "sparse", "tfx", 2),
                ("examples, dense features", "TFX's own factory", "dense", "tfx", 3),
                ("examples, sparse features", "records alone, nothing parsed", "sparse", "alone", 0.5),
                ("examples, dense features", "records alone, nothing parsed", "dense", "alone", 0.5),
            )
        ]
        kept, parsed = side("cached", "sparse"), side("ours", "sparse")
        rows.append(compare("sparse features, in input_cache", "reading and parsing", options, ours=kept, peer=parsed))
        report(rows, options)


def _side(options: argparse.Namespace, maker: str, kind: str) -> Any:
    return lambda: in_a_process(__file__, f"{maker}-{kind}", options)


def _measure(options: argparse.Namespace) -> float:
    rows = _QUICK_ROWS if options.quick else _ROWS
    if options.measure == "write":
        _write(pathlib.Path(options.folder), rows)
        return rows
    maker, kind = options.measure.split("-")
    cached = functools.partial(_ours, cache=f"{options.folder}/cache")
    make = {"ours": _ours, "cached": cached, "tfx": _tfx, "alone": _alone}[maker]
    return _examples_per_second(make([f"{options.folder}/*.gz"], _schema(kind)), rows // _BATCH)


def _examples_per_second(dataset: Any, batches: int) -> float:
    import tensorflow as tf

    @tf.function
    def run(iterator: Any) -> None:
        for _ in tf.range(batches):
            next(iterator)

    iterator = iter(dataset)
    run.get_concrete_function(iterator)  # tracing is no reading
    start = time.perf_counter()
    run(iterator)
    seconds = time.perf_counter() - start
    # The process ends without the iterator's own end, which may wait for the autotuner.
    return batches * _BATCH / seconds


def _dataset_options() -> Any:
    from tfx_bsl.tfxio.dataset_options import TensorFlowDatasetOptions

    return TensorFlowDatasetOptions(batch_size=_BATCH, num_epochs=1, shuffle=True)


def _ours(patterns: list[str], schema: Any, cache: str | None = None) -> Any:
    from generic_trainer.executors.inputs.data_accessor import CacheOptions, DataAccessor, ExamplesFormat

    kept = CacheOptions(cache, 10) if cache else None
    return DataAccessor.for_format(ExamplesFormat(), kept).tf_dataset_factory(patterns, _dataset_options(), schema)


def _tfx(patterns: list[str], schema: Any) -> Any:
    from tfx_bsl.tfxio.tf_example_record import TFExampleRecord

    reader = TFExampleRecord(patterns, schema=schema, telemetry_descriptors=["Benchmark"])
    return reader.TensorFlowDataset(_dataset_options())


def _alone(patterns: list[str], _: Any) -> Any:
    import tensorflow as tf

    def read(path: Any) -> Any:
        return tf.data.TFRecordDataset(path, "GZIP")

    files = tf.data.Dataset.list_files(patterns)
    return files.interleave(read, num_parallel_calls=tf.data.AUTOTUNE).batch(_BATCH).prefetch(tf.data.AUTOTUNE)


@dataclasses.dataclass(frozen=True)
class _Column:
    name: str

    @property
    def type(self) -> str:
        """The name of the feature's type in a schema."""
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
    return text_format.Parse(text, schema_pb2.Schema())


def _write(folder: pathlib.Path, rows: int) -> None:
    import tensorflow as tf

    trips = _trips()
    columns = [_Column(name) for name in trips[0]]
    chosen = random.Random(7)  # noqa: S311 (no secrets: the same data in each run)
    for index in range(_FILES):
        with tf.io.TFRecordWriter(str(folder / f"data-{index}.gz"), "GZIP") as writer:
            for _ in range(rows // _FILES):
                trip = chosen.choice(trips)
                # Two numbers of its own, so that gzip does not find the same row again.
                trip = {**trip, "fare": f"{chosen.uniform(3, 90):.2f}", "trip_seconds": str(chosen.randrange(9000))}
                features = {column.name: column.feature(trip[column.name]) for column in columns}
                example = tf.train.Example(features=tf.train.Features(feature=features))
                writer.write(example.SerializeToString())


if __name__ == "__main__":
    main()
