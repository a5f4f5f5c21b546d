"""Measures the throughput of columnar CSV and Parquet input in batches of 512, compared with alternative readers.

    python benchmarks/input_columns.py
    python benchmarks/input_columns.py --quick

The data are the Chicago taxi trips in TFX's package, resampled to 240,000 rows with noise added to the numbers: 18
columns, of which 7 have a value in every row. The rows of the table:

- CSV input of a DLRover conf (index ranges of a `FileReader`, decoded by batches), compared with DLRover's input
  pipeline: a Python generator of lines, `from_generator`, batches, and `decode_csv` in ten threads.
- CSV input of an ElasticDL model file (`columns` and `sep`), compared with ElasticDL's reader: a generator over
  csv.reader. On both sides the rows are batched and the same mapped function parses the numbers.
- Both again, compared with pyarrow's `open_csv` of the same columns of the same file, in batches, each column
  `to_numpy`. A conf's rows are also decoded by Arrow, in two threads. Measured separately, a row takes 450 ns in Arrow,
  100 ns or less in the search for values that decode_csv would read differently, 90 ns for NumPy arrays, and 350 ns
  for passing blocks through tf.data into batches; pyarrow takes 650 ns in total. Without improvement: one tensor for
  all columns of a type; 1, 3 and 8 threads; a search for "0x" instead of the positions of "x", which takes longer.
  A model file gets records, vectors of 18 strings, which a user function parses. On a busy machine (load average 5 to
  10 on two cores), 900 ns of CPU time per row are spent on locating values with NumPy (`rows.py`), 400 on parsing
  serialized tensors, 600 on extracting records from blocks and batching them, and 1,100 in the user function; with
  Arrow and an array of Python's bytes, the first two took 2,900. Blocks of 128 KiB need half the time of larger ones,
  whose temporary arrays cause page faults, and of smaller ones, each of which is a step in Python.
- Parquet input by `data_accessor.tf_dataset_factory`, compared with pyarrow's `iter_batches` of the same columns of the
  same file in the same batches, each column `to_numpy`. The pyarrow side does not shuffle, and a sparse tensor has
  indices and a shape in addition to values. Both sides read with pyarrow's threads.
- Parquet input of an ElasticDL model file, compared with pyarrow, without a target, and with tf.data alone: records of
  the same columns from tensors in memory, batched again. tf.data is the limit: a model file's `feed` takes records, not
  batches, and a record of seven columns takes tf.data 1,800 ns of the same busy machine, pyarrow 240 ns per row, and
  reading blocks 330 ns. `unbatch` of blocks is as fast as `from_tensor_slices`. Without improvement: batching with
  `num_parallel_calls`. The trainer disables autotuning for such pipelines, as do both sides here: it takes 300 ns.

Batches are consumed by a loop in a TensorFlow graph, as in Keras's `fit`, and counted from the second one: the start of
the pipeline (0.05 to 0.2 s) occurs once per training, not per step. Each measurement is a pass over the CSV file or six
passes over the Parquet file; both sides take turns in one process.
"""

from __future__ import annotations

import csv
import functools
import os
import pathlib
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import pairs

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

BATCH_SIZE = 512
TEXT = ("payment_type", "company")
SLICES = "from_tensor_slices of the same records in memory"
_FULL = ("fare", "tips", "trip_miles")
_BATCHES_OF_A_GENERATOR = 16  # it yields about 4,000 rows per second


def main() -> None:
    """Measures all rows of the table."""
    options = pairs.arguments(__doc__)
    rows = 30_000 if options.quick else 240_000
    with tempfile.TemporaryDirectory() as folder:
        data = Data(folder, rows, epochs=1 if options.quick else 6)
        pairs.report([*_csv_rows(data, options), *_parquet_rows(data, options)], options)


def _csv_rows(data: Data, options: Any) -> list[pairs.Row]:
    generator = "a Python reader through from_generator, as DLRover does it"
    csv_reader = "csv.reader through from_generator, as ElasticDL does it"
    arrow, memory, count = "pyarrow.csv's open_csv", SLICES, len(data.columns)
    some = _BATCHES_OF_A_GENERATOR // (8 if options.quick else 1)
    conf, model_file = data.speed(data.conf()), data.speed(data.csv())
    return [
        pairs.compare(what, against, options, ours=ours, peer=peer, unit="rows/s", at_least=at_least)
        for what, against, ours, peer, at_least in (
            ("CSV by columns, a conf's", generator, conf, data.speed(data.lines(), some), 20),
            ("CSV by columns, a model file's", csv_reader, model_file, data.speed(data.csv_reader(), some), 20),
            (f"CSV by index ranges, {count} columns of a conf", arrow, conf, data.arrow_csv_speed, 0.8),
            (f"CSV, {count} columns as records of a model file", arrow, model_file, data.arrow_csv_speed, 0.5),
            (
                f"CSV, {count} columns as records of a model file",
                memory,
                model_file,
                data.speed(data.csv_slices()),
                0.5,
            ),
        )
    ]


def _parquet_rows(data: Data, options: Any) -> list[pairs.Row]:
    full, every = data.full, data.columns
    arrow = "pyarrow's iter_batches"
    dense, sparse = f"Parquet, {len(full)} dense columns", f"Parquet, {len(every)} sparse columns"
    records = f"Parquet, {len(full)} columns as records of a model file"
    arrow_full, arrow_every = (functools.partial(data.arrow_speed, columns) for columns in (full, every))
    sides = [
        (dense, arrow, data.parquet(full, shuffle=False), arrow_full, 0.7),
        (f"{dense}, shuffled", arrow, data.parquet(full, shuffle=True), arrow_full, 0.7),
        (sparse, arrow, data.parquet(every, shuffle=False), arrow_every, 0.7),
        (f"{sparse}, shuffled", arrow, data.parquet(every, shuffle=True), arrow_every, 0.7),
        (records, arrow, data.records(full), arrow_full, None),
        (records, SLICES, data.records(full), data.speed(data.slices(full)), 0.8),
    ]
    return [
        pairs.compare(what, against, options, ours=data.speed(ours), peer=peer, unit="rows/s", at_least=at_least)
        for what, against, ours, peer, at_least in sides
    ]


class Data:
    """The data files, and the datasets of both sides."""

    def __init__(self, folder: str, rows: int, epochs: int) -> None:
        self._csv, self._parquet = (os.path.join(folder, f"taxi.{ending}") for ending in ("csv", "parquet"))
        self._rows, self._epochs = rows, epochs
        self._types = _write(self._csv, self._parquet, rows)
        self.columns = list(self._types)
        self.full = [name for name in self.columns if name.startswith("trip_start") or name in _FULL]

    def speed(self, dataset: Any, batches: int | None = None) -> Callable[[], float]:
        """Returns a function that measures a dataset's rows per second, over all or the given number of batches."""
        import tensorflow as tf

        some = dataset if batches is None else dataset.take(batches)

        @tf.function(reduce_retracing=True)
        def count(iterator: Any) -> Any:
            batches = tf.constant(0, tf.int64)
            for _ in iterator:
                batches += 1
            return batches

        trace = count.get_concrete_function(iter(some))

        def measure() -> float:
            iterator = iter(some)
            next(iterator)
            start = time.perf_counter()
            return float(trace(iterator)) * BATCH_SIZE / (time.perf_counter() - start)

        return measure

    def arrow_speed(self, columns: list[str]) -> float:
        """Returns the rows per second of pyarrow's Parquet reader with conversion to NumPy."""
        import pyarrow.parquet as pq

        start, rows = time.perf_counter(), 0
        for _ in range(self._epochs):
            for batch in pq.ParquetFile(self._parquet).iter_batches(BATCH_SIZE, columns=columns):
                arrays = {name: batch.column(name).to_numpy(zero_copy_only=False) for name in columns}
                rows += len(arrays[columns[0]])
        return rows / (time.perf_counter() - start)

    def arrow_csv_speed(self) -> float:
        """Returns the rows per second of pyarrow's CSV reader with conversion to NumPy."""
        import pyarrow as pa
        import pyarrow.csv

        kinds = {"INT": pa.int64(), "FLOAT": pa.float32(), "BYTES": pa.string()}
        types = {name: kinds[kind] for name, kind in self._types.items()}
        options = pa.csv.ConvertOptions(include_columns=self.columns, column_types=types)
        start, rows = time.perf_counter(), 0
        for block in pa.csv.open_csv(self._csv, convert_options=options):
            for first in range(0, block.num_rows, BATCH_SIZE):
                batch = block.slice(first, BATCH_SIZE)
                arrays = {name: batch.column(name).to_numpy(zero_copy_only=False) for name in self.columns}
                rows += len(arrays[self.columns[0]])
        return rows / (time.perf_counter() - start)

    def parquet(self, columns: list[str], shuffle: bool) -> Any:
        """Returns the Parquet dataset of TFX's interface; dense if the columns are `full`, else all sparse."""
        from tfx_bsl.public.tfxio import TensorFlowDatasetOptions

        from generic_trainer.executors.examples_format import ExamplesFormat
        from generic_trainer.executors.inputs.data_accessor import DataAccessor
        from generic_trainer.executors.inputs.parquet.format import PARQUET

        accessor = DataAccessor.for_format(ExamplesFormat(PARQUET))
        options = TensorFlowDatasetOptions(BATCH_SIZE, num_epochs=self._epochs, shuffle=shuffle, shuffle_seed=1)
        return accessor.tf_dataset_factory([self._parquet], options, self._schema(columns, columns == self.full))

    def records(self, columns: list[str]) -> Any:
        """Returns the Parquet rows as records for an ElasticDL model file, batched again."""
        from generic_trainer.executors.dialects.elasticdl.readers.open_records import open_records

        return _with_options(open_records(self._parquet, {"columns": columns}).dataset().batch(BATCH_SIZE))

    def slices(self, columns: list[str]) -> Any:
        """Returns the same records from tensors in memory, batched again."""
        import pyarrow.parquet as pq
        import tensorflow as tf

        table = pq.read_table(self._parquet, columns=columns)
        arrays = {name: table.column(name).to_numpy() for name in columns}
        return _with_options(tf.data.Dataset.from_tensor_slices(arrays).batch(BATCH_SIZE))

    def conf(self) -> Any:
        """Returns the CSV rows as the input of a DLRover conf."""
        import tensorflow as tf

        from generic_trainer.executors.dialects.dlrover.sharding.range_reader import count_rows, read_ranges
        from generic_trainer.executors.dialects.dlrover.sharding.shard_ledger import ShardLedger
        from generic_trainer.executors.dialects.dlrover.shim.file_reader import FileReader
        from generic_trainer.executors.dialects.dlrover.text.delimited_blocks import BlockDecoder
        from generic_trainer.executors.inputs.readers.reader_errors import ReaderErrors

        decoder, reader = BlockDecoder(self._fields()), FileReader(self._csv)
        size = count_rows(reader)

        def blocks() -> Iterator[Any]:
            # A shard is ten batches, as for a conf.
            ledger = ShardLedger(size, 10 * BATCH_SIZE, 1)
            return read_ranges(reader, ledger, threads=decoder.threads, read=decoder.read)

        batches = decoder.batches(blocks, ReaderErrors(), BATCH_SIZE)
        return batches.map(decoder.decode, tf.data.AUTOTUNE).prefetch(4)

    def lines(self) -> Any:
        """Returns the CSV rows as in DLRover's input pipeline."""
        import tensorflow as tf

        from generic_trainer.executors.dialects.dlrover.text.delimited import decode

        def lines() -> Iterator[str]:
            with open(self._csv, encoding="utf-8") as file:
                next(file)
                for line in file:
                    yield line.rstrip("\n")

        fields = self._fields()
        rows = tf.data.Dataset.from_generator(lines, output_signature=tf.TensorSpec([], tf.string)).batch(BATCH_SIZE)
        return rows.map(lambda rows: decode(rows, fields), num_parallel_calls=10)

    def csv(self) -> Any:
        """Returns the CSV rows as the input of an ElasticDL model file, batched and parsed."""
        from generic_trainer.executors.dialects.elasticdl.readers.open_records import open_records

        return _with_options(self._numbers(open_records(self._csv, {"columns": self.columns, "sep": ","}).dataset()))

    def csv_slices(self) -> Any:
        """Returns the same records from a tensor in memory, batched and parsed."""
        import numpy as np
        import tensorflow as tf

        from generic_trainer.executors.dialects.elasticdl.readers.csv_records import csv_blocks, strings_of_block

        blocks = [strings_of_block(*block) for block in csv_blocks([self._csv], self.columns, ",")]
        return _with_options(self._numbers(tf.data.Dataset.from_tensor_slices(np.concatenate(blocks))))

    def csv_reader(self) -> Any:
        """Returns the CSV rows as in ElasticDL's reader, batched and parsed."""
        import tensorflow as tf

        def rows() -> Iterator[list[str]]:
            with open(self._csv, newline="", encoding="utf-8") as file:
                reader = csv.reader(file)
                header = next(reader)
                places = [header.index(name) for name in self.columns]
                for row in reader:
                    yield [row[place] for place in places]

        signature = tf.TensorSpec([len(self.columns)], tf.string)
        return self._numbers(tf.data.Dataset.from_generator(rows, output_signature=signature))

    def _numbers(self, rows: Any) -> Any:
        import tensorflow as tf

        def typed(rows: Any) -> dict[str, Any]:
            columns = dict(zip(self.columns, tf.unstack(rows, num=len(self.columns), axis=1), strict=True))
            kinds = {"INT": tf.int64, "FLOAT": tf.float32}
            return {
                name: text
                if name in TEXT
                else tf.strings.to_number(tf.where(tf.equal(text, ""), "0", text), kinds[self._types[name]])
                for name, text in columns.items()
            }

        return rows.batch(BATCH_SIZE).map(typed, num_parallel_calls=10)

    def _fields(self) -> list[Any]:
        from generic_trainer.executors.dialects.dlrover.text.delimited import Field

        kinds = {"INT": "int64", "FLOAT": "float32", "BYTES": "string"}
        return [Field(name, kinds[kind]) for name, kind in self._types.items()]

    def _schema(self, columns: list[str], dense: bool) -> Any:
        from google.protobuf import text_format
        from tensorflow_metadata.proto.v0 import schema_pb2

        shape = "presence { min_fraction: 1 min_count: 1 } shape { dim { size: 1 } }" if dense else ""
        text = "".join(f'feature {{ name: "{name}" type: {self._types[name]} {shape} }}\n' for name in columns)
        return text_format.Parse(text, schema_pb2.Schema())


def _with_options(dataset: Any) -> Any:
    """Returns a dataset with the options of the trainer's pipelines for model files."""
    from generic_trainer.executors.dialects.elasticdl.data import pipeline_options

    return dataset.with_options(pipeline_options())


def _write(csv_file: str, parquet_file: str, rows: int) -> dict[str, str]:
    """Writes the trips to both files; returns {column: feature type in a schema}."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute
    import pyarrow.csv
    import pyarrow.parquet

    spec = find_spec("tfx")
    assert spec is not None
    assert spec.origin is not None
    trips = pa.csv.read_csv(
        pathlib.Path(spec.origin).parent / "examples" / "chicago_taxi_pipeline" / "data" / "simple" / "data.csv"
    )
    random = np.random.default_rng(0)
    drawn = trips.take(random.integers(0, trips.num_rows, rows))
    for place, field in enumerate(drawn.schema):
        if pa.types.is_floating(field.type):
            moved = pa.compute.add(drawn[field.name], pa.array(np.round(random.normal(0, 0.05, rows), 4)))
            drawn = drawn.set_column(place, field.name, moved)
    pa.csv.write_csv(drawn, csv_file)
    pa.parquet.write_table(drawn, parquet_file, row_group_size=65_536)
    kinds = {"int64": "INT", "double": "FLOAT", "string": "BYTES"}
    return {field.name: kinds[str(field.type)] for field in drawn.schema}


if __name__ == "__main__":
    main()
