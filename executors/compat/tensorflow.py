"""Private names of TensorFlow, valid for TensorFlow 2.15.1 to 2.21."""

from __future__ import annotations

import abc
import contextlib
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from .patching import replaced

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf
    from tensorflow.core.protobuf import saved_model_pb2, struct_pb2
    from tensorflow.python.checkpoint.checkpoint import CheckpointLoadStatus
    from tensorflow.python.feature_column import feature_column, feature_column_v2
    from tensorflow.python.feature_column.feature_column_v2_types import FeatureColumn
    from tensorflow.python.trackable.base import Trackable
    from tensorflow.python.training.saving.saveable_object import SaveSpec

    Saved: TypeAlias = "tf.Tensor | SaveSpec"
    Gathered: TypeAlias = "Saved | dict[str, Saved]"  # whole, or by slices
    LoadStatus: TypeAlias = CheckpointLoadStatus

# Eager execution and tensors


def eager_mode() -> contextlib.AbstractContextManager[None]:
    """Enables eager execution for the duration of a block, in this thread.

    `tf.init_scope` leaves graphs, but does not enable eager execution in a process that has disabled it globally, as
    TensorFlow 1 modules do.
    """
    from tensorflow.python.eager import context

    mode: contextlib.AbstractContextManager[None] = context.eager_mode()
    return mode


def seed_generator() -> random.Random | None:
    """Returns the generator that provides seeds for operations without a seed; None if no global seed was set.

    `tf.random.set_seed` resets it, but no public function reads or restores its state.
    """
    from tensorflow.python.eager import context

    generator = getattr(context.context(), "_rng", None)
    return generator if isinstance(generator, random.Random) else None


def memory_of(tensor: tf.Tensor) -> np.ndarray:
    """Returns the memory of an eager tensor on the CPU as a writable array.

    `tensor.numpy()` returns a copy, and DLPack views are read-only.
    """
    memory: np.ndarray = tensor._numpy()
    return memory


# Checkpoints


def gathered_tensors(checkpoint: tf.train.Checkpoint) -> tuple[dict[Trackable | None, dict[str, Gathered]], bool]:
    """Returns the values that a `tf.train.Checkpoint` would write.

    The public API writes them to a file, but does not return them.

    Args:
      checkpoint: The checkpoint.

    Returns:
      {object: {checkpoint key: tensor, or {slice: tensor}}}, and whether this is complete: False if the checkpoint has
      fed values, or objects with their own saver.
    """
    tensors, feeds, registered, _ = checkpoint._saver._gather_serialized_tensors()
    return tensors, not (feeds or registered)


@contextlib.contextmanager
def checkpoint_states_written_by(
    before: Callable[[str], object], write: Callable[[str, str], object]
) -> Iterator[None]:
    """Replaces how `checkpoint` state files, which list the complete checkpoints, are written in a block.

    Savers, checkpoint managers and `tf.train.Checkpoint.save` write one after a checkpoint's files, and before they
    delete older checkpoints. No public hook is called in between.

    Args:
      before: Called with the path prefix of the newest checkpoint, before the state file is written.
      write: Writes a text atomically to a local path: a state file, or the graph that an Estimator keeps beside it.
    """
    from tensorflow.python.checkpoint import checkpoint_management
    from tensorflow.python.lib.io import file_io

    def update(
        original: Callable[..., object], save_dir: str, model_checkpoint_path: str, *args: Any, **options: Any
    ) -> object:
        before(str(model_checkpoint_path))
        return original(save_dir, model_checkpoint_path, *args, **options)

    def write_text(original: Callable[..., object], path: str, content: str | bytes, overwrite: bool = True) -> object:
        if isinstance(content, bytes) or "://" in path or not overwrite:  # bytes are the files of a SavedModel
            return original(path, content, overwrite)
        return write(path, content)

    with (
        replaced(checkpoint_management, "update_checkpoint_state_internal", update),
        replaced(file_io, "atomic_write_string_to_file", write_text),
    ):
        yield


class ManagedCheckpoint(abc.ABC):
    """Base class of objects that a `tf.train.CheckpointManager` saves instead of a `tf.train.Checkpoint`.

    The manager documents that it needs a Checkpoint, but only uses its `save_counter` and `_write`. A subclass of
    Checkpoint would have to override all of its methods that write.
    """

    @property
    @abc.abstractmethod
    def save_counter(self) -> tf.Variable:
        """Number of saved checkpoints, in a variable that TensorFlow stores in every checkpoint."""

    @abc.abstractmethod
    def write(self, prefix: str, options: tf.train.CheckpointOptions) -> str:
        """Writes a checkpoint.

        Args:
          prefix: Path prefix of the checkpoint.
          options: The `tf.train.CheckpointOptions`, including the manager's callbacks.

        Returns:
          The checkpoint's path.
        """

    def _write(self, prefix: str, options: tf.train.CheckpointOptions) -> str:
        return self.write(prefix, options)


# SavedModels


@contextlib.contextmanager
def exports_reported(report: Callable[[str], None]) -> Iterator[None]:
    """Calls `report` with the folder of each SavedModel that is about to be written, for the duration of a block.

    Every export passes TensorFlow's writer: `tf.saved_model.save`, and the Keras exports that do not call it.
    """
    from tensorflow.python.saved_model import save

    def write(
        original: Callable[..., object], model: Trackable, folder: str, *args: object, **options: object
    ) -> object:
        report(str(folder))
        return original(model, folder, *args, **options)

    with replaced(save, "save_and_return_nodes", write):
        yield


@contextlib.contextmanager
def graph_builders_reported(report: Callable[[str], None]) -> Iterator[None]:
    """Calls `report` with the folder of each SavedModel that a `tf.compat.v1.saved_model.Builder` has written.

    TensorFlow 1 code writes SavedModels with it. Its public names are subclasses of one class.
    """
    from tensorflow.python.saved_model import builder_impl

    def save(original: Callable[..., object], builder: Any, *args: object, **options: object) -> object:
        path = original(builder, *args, **options)
        report(str(builder._export_dir))
        return path

    with replaced(builder_impl._SavedModelBuilder, "save", save):
        yield


def write_graph(
    model: Trackable, folder: str, signatures: Callable[..., object] | Mapping[str, Callable[..., object]]
) -> None:
    """Writes a SavedModel like `tf.saved_model.save`, but without the values of the variables.

    `tf.saved_model.SaveOptions` has no such option.
    """
    from tensorflow.python.saved_model import save

    save.save_and_return_nodes(model, folder, signatures, experimental_skip_checkpoint=True)


def mark_variables_written(builder: tf.compat.v1.saved_model.Builder) -> None:
    """Makes a `tf.compat.v1.saved_model.Builder` accept graphs before, or without, the variables' values.

    Its public methods require the values with the first graph.
    """
    builder._has_saved_variables = True


def parse_saved_model(folder: str) -> saved_model_pb2.SavedModel:
    """Returns the SavedModel message of a folder, from `saved_model.pb` or `saved_model.pbtxt`, split ones included.

    The public functions load the model or print it.

    Raises:
      OSError, ValueError: If the file is missing or cannot be read.
    """
    from tensorflow.python.saved_model import loader_impl

    return loader_impl.parse_saved_model(folder)


def decode_structure(message: struct_pb2.StructuredValue) -> Any:
    """Returns the nested structure of tensor specs in a StructuredValue of a SavedModel.

    Public functions return it only for a loaded model.

    Raises:
      TypeError, ValueError, AttributeError: If the value is not such a structure.
    """
    from tensorflow.python.saved_model import nested_structure_coder

    return nested_structure_coder.decode_proto(message)


def modules_that_load_op_libraries() -> tuple[ModuleType, ModuleType]:
    """Returns the modules by which packages call `load_op_library`: `tf`, and the private one of many packages."""
    import tensorflow as tf
    from tensorflow.python.framework import load_library

    return tf, load_library


def op_libraries() -> list[ModuleType]:
    """Returns the modules that TensorFlow has made for the libraries of custom ops that this process has loaded.

    A module has a function for each op, named like the op with "_" for ">". There is no public list of them.
    """
    modules = [module for module in list(sys.modules.values()) if isinstance(module, ModuleType)]
    return [module for module in modules if vars(module).get("_IS_TENSORFLOW_PLUGIN")]


def is_registered_op(name: str) -> bool:
    """Returns whether an op is registered in this process; `tf.raw_ops` only has TensorFlow's own ops."""
    from tensorflow.python.framework import op_def_registry

    return op_def_registry.get(name) is not None


# Clusters


@contextlib.contextmanager
def own_executor() -> Iterator[None]:
    """Runs this thread's eager operations in the block with a separate executor.

    After an operation on a lost task, its executor fails all further operations. `ClusterCoordinator` therefore has one
    for each worker; the default one is shared by all threads.
    """
    from tensorflow.python.eager import context, executor

    own = executor.new_executor(enable_async=False)
    try:
        with context.executor_scope(own):
            yield
    finally:
        own.clear_error()


def reconnect_cluster() -> None:
    """Connects the eager context to tasks of its cluster that were started again; blocks until they are running.

    TensorFlow's `ClusterCoordinator` does the same. The public `tf.config.experimental_connect_to_cluster` needs a
    cluster resolver and would drop the device filters of `ParameterServerStrategy`.

    Raises:
      tf.errors.OpError: When another task was lost meanwhile.
    """
    from tensorflow.python.eager import context

    context.context().update_server_def(context.get_server_def())


# Input pipelines


@contextlib.contextmanager
def pipelines_built_in(context: Callable[[], contextlib.AbstractContextManager[None]]) -> Iterator[None]:
    """Enters a context around each call that builds a part of a `tf.data` pipeline, for the duration of a block.

    There are many public functions for mapping and parsing, in and out of graphs; each of them calls one of these.
    """
    from tensorflow.python.data.experimental.ops import parsing_ops
    from tensorflow.python.data.ops import structured_function

    def build(original: Callable[..., object], *args: object, **options: object) -> object:
        with context():
            return original(*args, **options)

    with (
        replaced(structured_function.StructuredFunctionWrapper, "__init__", build),
        replaced(parsing_ops._ParseExampleDataset, "__init__", build),
    ):
        yield


@contextlib.contextmanager
def feature_specs_reported(report: Callable[[object], None]) -> Iterator[None]:
    """Calls `report` with each feature spec by which examples are to be parsed, for the duration of a block."""
    from tensorflow.python.ops import parsing_config

    def parse(original: Callable[..., object], features: object, *args: object, **options: object) -> object:
        report(features)
        return original(features, *args, **options)

    with replaced(parsing_config._ParseOpParams, "from_features", parse):
        yield


def batch_size_of(dataset: tf.data.Dataset) -> int | None:
    """Returns the batch size of a `tf.data` dataset if its last transformation is `batch`; otherwise None.

    `element_spec` has it only if the last partial batch is dropped.
    """
    import tensorflow as tf

    size = getattr(dataset, "_batch_size", None)
    value = tf.get_static_value(size) if size is not None else None
    return None if value is None else int(value)


def inputs_of(dataset: tf.data.Dataset) -> Sequence[tf.data.Dataset]:
    """Returns the input datasets of a `tf.data` dataset; its public graph does not reference Python objects."""
    inputs: Sequence[tf.data.Dataset] = getattr(dataset, "_inputs", tuple)()
    return inputs


# Strategies


def has_coordinator(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether Keras runs its steps with a `ClusterCoordinator`, as with parameter servers.

    Keras checks this attribute, which third-party strategies may also have.
    """
    return bool(getattr(strategy, "_should_use_with_coordinator", False))


# Feature columns: the public `tf.feature_column` has functions that create columns, but not their classes or functions
# to serialize them.


def categorical_column_bases() -> tuple[
    type[feature_column_v2.CategoricalColumn], type[feature_column._CategoricalColumn]
]:
    """Returns the base classes that a categorical column needs for `DenseFeatures`: those of version 2 and 1."""
    from tensorflow.python.feature_column import feature_column, feature_column_v2

    return feature_column_v2.CategoricalColumn, feature_column._CategoricalColumn


def embedding_column_class() -> type[feature_column_v2.EmbeddingColumn]:
    """Returns the class of columns created by `tf.feature_column.embedding_column`."""
    from tensorflow.python.feature_column import feature_column_v2

    column_class: type[feature_column_v2.EmbeddingColumn] = feature_column_v2.EmbeddingColumn
    return column_class


def are_present_columns(columns: Iterable[FeatureColumn]) -> bool:
    """Returns whether all columns consist of version 2 classes."""
    return all(column._is_v2_column for column in columns)


def serialize_feature_column(column: FeatureColumn) -> object:
    """Returns a column's configuration."""
    from tensorflow.python.feature_column import serialization

    return serialization.serialize_feature_column(column)


def deserialize_feature_column(
    config: object,
    custom_objects: Mapping[str, object] | None,
    columns_by_name: dict[str, FeatureColumn] | None,
) -> FeatureColumn:
    """Returns the column for a configuration."""
    from tensorflow.python.feature_column import serialization

    return serialization.deserialize_feature_column(config, custom_objects, columns_by_name)
