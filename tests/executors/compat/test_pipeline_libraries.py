"""Every private name of TFX, TFDV, TFT, ML Metadata, Beam and Ray that is used, called on something small."""

from __future__ import annotations

import contextlib
import gzip
import os
import pathlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from generic_trainer.executors.compat import beam as beam_compat
from generic_trainer.executors.compat import tensorflow_transform, tfdv, tfx

if TYPE_CHECKING:
    import apache_beam as beam

pytestmark = pytest.mark.legacy


def test_a_metadata_handle_has_its_connection_config(tmp_path: pathlib.Path) -> None:
    from tfx.orchestration import metadata

    config = metadata.sqlite_metadata_connection_config(str(tmp_path / "metadata.sqlite"))
    assert tfx.connection_config_of(metadata.Metadata(config)) == config


def test_statistics_are_computed_in_this_process() -> None:
    import pyarrow as pa

    batch = pa.RecordBatch.from_arrays([pa.array([[1], [2], None, [3]])], names=["number"])
    [dataset] = tfdv.statistics_of(batch, num_top_values=0).datasets
    [feature] = dataset.features
    assert dataset.num_examples == 4
    assert (feature.path.step[0], feature.num_stats.mean) == ("number", 2.0)
    assert tfdv.import_tfdv().infer_schema(tfdv.statistics_of(batch)).feature[0].name == "number"


def test_a_transform_graph_reports_where_it_is_applied_and_its_tensors_become_arrow(tmp_path: pathlib.Path) -> None:
    import tensorflow as tf
    import tensorflow_transform as tft

    applied: list[bool] = []
    graphs = [tft.TFTransformOutput(_transform_graph(tmp_path / str(is_v1), is_v1)) for is_v1 in (False, True)]
    with tensorflow_transform.transform_graphs_reported(lambda: applied.append(tf.executing_eagerly())):
        transformed = graphs[0].transform_features_layer()({"x": tf.constant([2.0, 5.0])})
        assert applied == [True]
        with tf.Graph().as_default():
            graphs[1].transform_raw_features({"x": tf.constant([2.0])})
        assert applied == [True, False]
    converter = tensorflow_transform.tensor_to_arrow_converter(graphs[0].transformed_metadata.schema)
    assert converter.convert(transformed).to_pydict() == {"y": [[0.0], [3.0]]}


def _transform_graph(folder: pathlib.Path, is_v1: bool) -> str:
    """Analyzes two rows whose mean is 2, which the graph subtracts."""
    import apache_beam as beam
    import tensorflow as tf
    import tensorflow_transform as tft
    import tensorflow_transform.beam as tft_beam
    from tensorflow_transform.tf_metadata import dataset_metadata, schema_utils

    schema = schema_utils.schema_from_feature_spec({"x": tf.io.FixedLenFeature([], tf.float32)})
    metadata = dataset_metadata.DatasetMetadata(schema)
    runner = beam_compat.IN_PROCESS_RUNNER
    options = beam.options.pipeline_options.PipelineOptions([f"--runner={runner}"])
    context = tft_beam.Context(temp_dir=str(folder / "temporary"), force_tf_compat_v1=is_v1)
    with beam.Pipeline(options=options) as pipeline, context:
        rows = pipeline | beam.Create([{"x": 1.0}, {"x": 3.0}])
        graph = (rows, metadata) | tft_beam.AnalyzeDataset(lambda inputs: {"y": inputs["x"] - tft.mean(inputs["x"])})
        _ = graph | tft_beam.WriteTransformFn(str(folder / "graph"))
    return str(folder / "graph")


def test_reshuffle_takes_the_number_of_keys() -> None:
    import apache_beam as beam

    before = beam.Reshuffle().num_buckets
    with beam_compat.reshuffle_buckets(1 << 62):
        assert beam.Reshuffle().num_buckets == 1 << 62
    assert beam.Reshuffle().num_buckets == before


def test_a_pipeline_without_reshuffle_has_the_same_elements_in_the_same_order(tmp_path: pathlib.Path) -> None:
    import apache_beam as beam

    def written(path: pathlib.Path) -> str:
        with _in_process_pipeline() as pipeline:
            numbers = pipeline | beam.Create(list(map(str, range(1000)))) | beam.Reshuffle()
            _ = numbers | beam.io.WriteToText(str(path), num_shards=1, shard_name_template="")
        return path.read_text()

    with beam_compat.reshuffle_buckets(1 << 62):
        expected = written(tmp_path / "with.txt")
    with beam_compat.without_reshuffle():
        assert beam.Reshuffle().expand("elements") == "elements"
        assert written(tmp_path / "without.txt") == expected
    assert len(expected.split()) == 1000


@pytest.mark.parametrize("name", ["data.txt", "data.txt.gz"])
def test_the_bytes_that_a_pipeline_reads_are_counted_as_it_processes_them(name: str, tmp_path: pathlib.Path) -> None:
    import apache_beam as beam
    from apache_beam.io.filesystems import FileSystems

    rows = [f"{number} {number * 2654435761 % 2**32}" for number in range(100_000)]
    path = tmp_path / name
    with gzip.open(path, "wt") if name.endswith(".gz") else path.open("w") as file:
        file.write("\n".join(rows))
    sizes: list[int] = []
    _NOTED.clear()

    @contextlib.contextmanager
    def watch(size: int) -> Iterator[Callable[[int], None]]:
        sizes.append(size)
        yield lambda count: _NOTED.append((count, 0))

    before = FileSystems.__dict__["open"]
    with beam_compat.reads_counted(watch):
        with _in_process_pipeline() as pipeline:
            _ = pipeline | beam.io.ReadFromText(str(path)) | beam.Map(lambda row: _note(-1, int(row.split()[0])))
        with _in_process_pipeline() as pipeline:  # reads no file
            _ = pipeline | beam.Create([1])
    assert FileSystems.__dict__["open"] is before
    size = path.stat().st_size
    assert sizes == [size]
    assert sum(count for count, _ in _NOTED if count > 0) >= size
    assert sorted(number for count, number in _NOTED if count < 0) == list(range(100_000))
    assert _NOTED[0][0] < size / 2  # rows are processed between the reads


def test_options_and_the_state_of_a_dofn_are_looked_up_once() -> None:
    import apache_beam as beam
    from apache_beam.coders import VarIntCoder
    from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
    from apache_beam.transforms import userstate

    spec = userstate.ReadModifyWriteStateSpec("count", VarIntCoder())

    class Counts(beam.DoFn):  # type: ignore[misc]
        looked_up = 0

        def process(self, element: object, count: object = beam.DoFn.StateParam(spec)) -> None: ...

        def _inspect_process(self) -> object:  # Beam asks it for the arguments of `process`
            self.looked_up += 1
            return ["element", "count"], [beam.DoFn.StateParam(spec)]

    class Unhashable(Counts):
        __hash__ = None  # type: ignore[assignment]

    options, other, counts = PipelineOptions(["--streaming"]), PipelineOptions([]), Counts()
    with beam_compat.lookups_cached():
        view = options.view_as(StandardOptions)
        assert options.view_as(StandardOptions) is view
        assert (view.streaming, other.view_as(StandardOptions).streaming) == (True, False)
        options.view_as(StandardOptions).streaming = False
        assert not view.streaming
        for dofn in (counts, counts, Unhashable()):
            assert userstate.get_dofn_specs(dofn) == ({spec}, set())
        once = counts.looked_up
    assert options.view_as(StandardOptions) is not view
    assert userstate.get_dofn_specs(counts) == ({spec}, set())
    assert counts.looked_up == 2 * once == 2


class _Measured:
    """A value that counts how often its size is measured."""

    measured = 0

    def __sizeof__(self) -> int:
        type(self).measured += 1
        return 1


def test_without_a_state_cache_side_inputs_are_not_measured() -> None:
    import apache_beam as beam

    def run() -> int:
        _Measured.measured = 0
        _NOTED.clear()
        with _in_process_pipeline() as pipeline:
            side = beam.pvalue.AsSingleton(pipeline | "side" >> beam.Create([_Measured()]))
            _ = pipeline | beam.Create([1, 2]) | beam.Map(lambda number, _: _note(os.getpid(), number), side)
        assert sorted(number for _, number in _NOTED) == [1, 2]
        return _Measured.measured

    assert run() > 0
    with beam_compat.no_state_cache():
        assert run() == 0
    assert run() > 0


def test_the_runner_within_the_process_runs_a_pipeline() -> None:
    import apache_beam as beam

    _NOTED.clear()
    with _in_process_pipeline() as pipeline:
        _ = pipeline | beam.Create([1, 2]) | beam.Map(lambda number: _note(os.getpid(), number))
    assert sorted(_NOTED) == [(os.getpid(), 1), (os.getpid(), 2)]


def _in_process_pipeline() -> beam.Pipeline:
    import apache_beam as beam

    arguments = [f"--runner={beam_compat.IN_PROCESS_RUNNER}", "--direct_running_mode=in_memory"]
    return beam.Pipeline(options=beam.options.pipeline_options.PipelineOptions(arguments))


_NOTED: list[tuple[int, int]] = []


def _note(first: int, second: int) -> None:
    _NOTED.append((first, second))
