"""Calls every private TensorFlow name that the code uses, so that a release that changes one fails here."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest
import tensorflow as tf

from generic_trainer.executors.compat import tensorflow as compat

pytestmark = pytest.mark.legacy


class _Doubler(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factor = tf.Variable(2.0)

    @tf.function(input_signature=[{"x": tf.TensorSpec([None], tf.float32, "x")}])
    def serve(self, inputs: Any) -> Any:
        return {"y": self.factor * inputs["x"]}


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("model"))
    module = _Doubler()
    tf.saved_model.save(module, folder, module.serve)
    return folder


def test_eager_mode_enables_eager_execution_within_a_graph() -> None:
    with tf.Graph().as_default():
        assert not tf.executing_eagerly()
        with compat.eager_mode():
            assert tf.constant(3).numpy() == 3


def test_eager_mode_works_where_eager_execution_is_permanently_disabled() -> None:
    program = """
        import tensorflow as tf
        from generic_trainer.executors.compat.tensorflow import eager_mode
        tf.compat.v1.disable_eager_execution()
        with eager_mode():
            print(tf.constant(3).numpy())
    """
    assert _run(program) == 3


def test_operations_without_a_seed_use_the_seed_generator() -> None:
    tf.random.set_seed(3)
    generator = compat.seed_generator()
    assert generator is not None
    before = generator.getstate()
    tf.random.uniform([])
    assert generator.getstate() != before


def test_tensor_memory_is_not_shared() -> None:
    tensor = tf.raw_ops.Empty(shape=[3], dtype=tf.float32)
    compat.memory_of(tensor)[...] = [1, 2, 3]
    assert tensor.numpy().tolist() == [1, 2, 3]


def test_gathered_tensors_equal_those_of_the_checkpoint_by_key() -> None:
    variable = tf.Variable([1.0, 2.0])
    tensors, is_all = compat.gathered_tensors(tf.train.Checkpoint(weights=variable))
    assert is_all
    [found] = [found for owner, found in tensors.items() if owner is variable]
    [(key, tensor)] = found.items()
    assert key == "weights/.ATTRIBUTES/VARIABLE_VALUE"
    value = tensor.tensor if hasattr(tensor, "slice_spec") else tensor
    assert value.numpy().tolist() == [1.0, 2.0]


def test_a_checkpoint_manager_accepts_a_managed_checkpoint(tmp_path: pathlib.Path) -> None:
    class Other(compat.ManagedCheckpoint):
        def __init__(self) -> None:
            self.inner = tf.train.Checkpoint(step=tf.Variable(7))
            self.written: list[str] = []

        @property
        def save_counter(self) -> Any:
            return self.inner.save_counter

        def write(self, prefix: str, options: Any) -> str:
            self.written.append(prefix)
            return str(self.inner.write(prefix, options=options))

    other = Other()
    path = tf.train.CheckpointManager(other, str(tmp_path), max_to_keep=1).save(checkpoint_number=3)
    assert other.written == [path]
    assert tf.train.latest_checkpoint(str(tmp_path)) == path  # named by the callbacks in `options`


@pytest.mark.parametrize("package", ["tensorflow", "keras", "tf_keras"])
def test_every_export_is_reported(package: str, tmp_path: pathlib.Path) -> None:
    folders: list[str] = []
    with compat.exports_reported(lambda folder: folders.append(os.path.realpath(folder))):
        if package == "tensorflow":
            tf.saved_model.save(_Doubler(), str(tmp_path))
        else:
            keras = pytest.importorskip(package)
            keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)]).export(str(tmp_path))
    assert folders == [os.path.realpath(tmp_path)]


def test_write_graph_leaves_out_the_variables(tmp_path: pathlib.Path) -> None:
    module = _Doubler()
    compat.write_graph(module, str(tmp_path), module.serve)
    assert (tmp_path / "saved_model.pb").stat().st_size
    assert not list(tmp_path.glob("variables/*"))


def test_a_builder_accepts_a_graph_without_variables_if_they_are_marked_as_written(tmp_path: pathlib.Path) -> None:
    with tf.Graph().as_default():
        tf.constant(1)
        builder = tf.compat.v1.saved_model.Builder(str(tmp_path / "model"))
        compat.mark_variables_written(builder)
        builder.add_meta_graph(["serve"])
        builder.save()
    [graph] = compat.parse_saved_model(str(tmp_path / "model")).meta_graphs
    assert list(graph.meta_info_def.tags) == ["serve"]


def test_parse_saved_model_reads_both_forms(saved_model: str, tmp_path: pathlib.Path) -> None:
    message = compat.parse_saved_model(saved_model)
    assert "serving_default" in message.meta_graphs[0].signature_def
    (tmp_path / "saved_model.pbtxt").write_text(str(message))
    assert compat.parse_saved_model(str(tmp_path)) == message
    with pytest.raises(OSError, match="nowhere"):
        compat.parse_saved_model("nowhere")


def test_decode_structure_returns_the_specs_of_a_functions_arguments(saved_model: str) -> None:
    [graph] = compat.parse_saved_model(saved_model).meta_graphs
    functions = graph.object_graph_def.concrete_functions
    found = [compat.decode_structure(function.canonicalized_input_signature) for function in functions.values()]
    assert (({"x": tf.TensorSpec([None], tf.float32, "x")},), {}) in found


def test_registered_and_unregistered_ops_are_distinguished() -> None:
    assert compat.is_registered_op("MatMul")
    assert not compat.is_registered_op("NoSuchOp")


def test_input_pipelines_report_their_location_and_their_parsers() -> None:
    spec = {"x": tf.io.FixedLenFeature([], tf.float32)}
    record = tf.train.Example(
        features=tf.train.Features(feature={"x": tf.train.Feature(float_list=tf.train.FloatList(value=[3.0]))})
    ).SerializeToString()
    depth, built, specs = [0], [0], []

    @contextlib.contextmanager
    def building() -> Iterator[None]:
        depth[0] += 1
        built[0] += 1
        yield
        depth[0] -= 1

    def read(features: object) -> None:
        if depth[0]:
            specs.append(features)

    with compat.pipelines_built_in(building), compat.feature_specs_reported(read):
        tf.io.parse_example([record], spec)
        assert not specs
        records = tf.data.Dataset.from_tensors([record])
        [parsed] = records.map(lambda batch: tf.io.parse_example(batch, spec))
        assert (built[0], specs) == (1, [spec])
        [parsed_by_dataset] = records.apply(tf.data.experimental.parse_example_dataset(spec))
        assert (built[0], specs) == (2, [spec, spec])
    assert parsed["x"].numpy() == parsed_by_dataset["x"].numpy() == [3.0]


def test_a_datasets_batch_size_and_inputs_are_found() -> None:
    numbers = tf.data.Dataset.range(10)
    batches = numbers.batch(4)
    assert compat.batch_size_of(batches) == 4
    assert compat.batch_size_of(numbers) is None
    assert list(compat.inputs_of(batches)) == [numbers]
    assert not list(compat.inputs_of(numbers))


def test_parameter_servers_have_a_coordinator() -> None:
    assert not compat.has_coordinator(tf.distribute.MirroredStrategy(["CPU:0"]))
    program = """
        import socket
        import tensorflow as tf
        from generic_trainer.executors.compat.tensorflow import has_coordinator

        def address():
            with socket.socket() as one:
                one.bind(("localhost", 0))
                return f"localhost:{one.getsockname()[1]}"

        cluster = tf.train.ClusterSpec({"worker": [address()], "ps": [address()]})
        servers = [tf.distribute.Server(cluster, job_name=job, protocol="grpc") for job in ("worker", "ps")]
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, rpc_layer="grpc")
        print(int(has_coordinator(tf.distribute.ParameterServerStrategy(resolver))), flush=True)
        import os
        os._exit(0)
    """
    assert _run(program) == 1


def test_a_task_that_was_started_again_is_connected_again_and_its_error_stays_in_its_executor() -> None:
    served = """
        import sys
        import tensorflow as tf

        cluster = {"worker": [sys.argv[1]], "ps": [sys.argv[2]]}
        tf.distribute.Server(cluster, job_name=sys.argv[3], protocol="grpc").join()
    """
    program = """
        import os, subprocess, sys
        import tensorflow as tf
        from generic_trainer.executors.compat import tensorflow as compat

        def start(job):
            command = [sys.executable, "-c", os.environ["SERVED"], *sys.argv[1:3], job]
            return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        started = {job: start(job) for job in ("worker", "ps")}
        cluster = tf.train.ClusterSpec({"worker": [sys.argv[1]], "ps": [sys.argv[2]]})
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, rpc_layer="grpc")
        strategy = tf.distribute.ParameterServerStrategy(resolver)
        with strategy.scope():
            variable = tf.Variable(1.0)

        @tf.function
        def step():
            return variable + 1

        def on_worker():
            with compat.own_executor(), tf.device("/job:worker/replica:0/task:0"):
                return float(step())

        found = [on_worker()]
        started["worker"].kill()
        started["worker"].wait()
        try:
            on_worker()
        except tf.errors.UnavailableError:
            found.append("lost")
        found.append(float(next(iter(tf.data.Dataset.from_tensors(3.0)))))
        started["worker"] = start("worker")
        compat.reconnect_cluster()
        found.append(on_worker())
        for process in started.values():
            process.kill()
        import json
        print(json.dumps(found), flush=True)
        os._exit(0)
    """
    started = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), _address(), _address()],
        env={**os.environ, "SERVED": textwrap.dedent(served)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert _result(started) == [2.0, "lost", 3.0, 2.0]


def test_feature_columns_have_the_base_classes_and_survive_serialization() -> None:
    present, first = compat.categorical_column_bases()
    ids = tf.feature_column.categorical_column_with_identity("city", 3)
    assert isinstance(ids, present)
    assert isinstance(ids, first)
    assert present.IdWeightPair(1, None).id_tensor == 1
    assert isinstance(tf.feature_column.embedding_column(ids, 2), compat.embedding_column_class())
    assert compat.are_present_columns([ids])
    config = compat.serialize_feature_column(ids)
    assert compat.deserialize_feature_column(config, None, {}) == ids


def _address() -> str:
    with socket.socket() as one:
        one.bind(("localhost", 0))
        return f"localhost:{one.getsockname()[1]}"


def _run(program: str) -> Any:
    """Runs a program in a subprocess; returns the JSON in its last line."""
    return _result(_start(program))


def _start(program: str, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**os.environ, **variables}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def _result(started: subprocess.Popen[str]) -> Any:
    out, errors = started.communicate(timeout=300)
    assert started.returncode == 0, errors[-3000:]
    return json.loads(out.splitlines()[-1])
