"""Private names of TensorFlow. All of them hold from 2.15.1 to 2.21."""

from __future__ import annotations

import abc
import contextlib
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

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

# The strategy that is in use where no scope is open. `tf.distribute.has_strategy()` asks for the current scope only,
# and a model keeps the strategy that it was made under.
_DEFAULT_STRATEGY = "_DefaultDistributionStrategy"


# Eager execution and tensors


def eager_mode() -> contextlib.AbstractContextManager[None]:
    """Enables eager execution for a block, in this thread.

    `tf.init_scope` leaves graphs, but does not enable eager execution in a process that disabled it for good, as
    modules of TensorFlow 1 do.
    """
    from tensorflow.python.eager import context

    mode: contextlib.AbstractContextManager[None] = context.eager_mode()
    return mode


def seed_generator() -> random.Random | None:
    """Returns the generator from which operations without a seed draw theirs; None where no global seed was set.

    `tf.random.set_seed` begins it anew, but its position can be neither read nor restored.
    """
    from tensorflow.python.eager import context

    found = getattr(context.context(), "_rng", None)
    return found if isinstance(found, random.Random) else None


def memory_of(tensor: tf.Tensor) -> np.ndarray:
    """Returns the memory of an eager tensor on the CPU as an array that can be written to.

    `tensor.numpy()` returns a copy, and DLPack's views are read-only.
    """
    memory: np.ndarray = tensor._numpy()
    return memory


# Checkpoints


def gathered_tensors(checkpoint: tf.train.Checkpoint) -> tuple[dict[Trackable | None, dict[str, Gathered]], bool]:
    """Reads what a `tf.train.Checkpoint` would write.

    The public API writes it, to a file, and does not return it.

    Args:
      checkpoint: The checkpoint.

    Returns:
      {object: {checkpoint key: tensor, or {slice: tensor}}}, and whether this is all: False where the checkpoint has
      values that are fed, or objects that save themselves.
    """
    tensors, feeds, registered, _ = checkpoint._saver._gather_serialized_tensors()
    return tensors, not (feeds or registered)


class ManagedCheckpoint(abc.ABC):
    """What a `tf.train.CheckpointManager` saves in place of a `tf.train.Checkpoint`.

    The manager documents that it takes a Checkpoint, counts by its `save_counter`, and writes by its `_write`; a
    subclass of Checkpoint would have to write by itself whatever it takes over.
    """

    @property
    @abc.abstractmethod
    def save_counter(self) -> tf.Variable:
        """How often was saved, a variable that TensorFlow keeps in every checkpoint."""

    @abc.abstractmethod
    def write(self, prefix: str, options: tf.train.CheckpointOptions) -> str:
        """Writes a checkpoint.

        Args:
          prefix: Its path.
          options: The `tf.train.CheckpointOptions`; the manager's callbacks are among them.

        Returns:
          Its path.
        """

    def _write(self, prefix: str, options: tf.train.CheckpointOptions) -> str:
        return self.write(prefix, options)


# SavedModels


def saved_model_writer() -> tuple[object, str]:
    """Returns the hook point that every export passes: `tf.saved_model.save`, and Keras's that do not call that.

    It gets the object and the folder first.
    """
    from tensorflow.python.saved_model import save

    return save, "save_and_return_nodes"


def write_graph(
    model: Trackable, folder: str, signatures: Callable[..., object] | Mapping[str, Callable[..., object]]
) -> None:
    """Does what `tf.saved_model.save` does, but for writing the values of the variables.

    `tf.saved_model.SaveOptions` has no such option.
    """
    owner, name = saved_model_writer()
    getattr(owner, name)(model, folder, signatures, experimental_skip_checkpoint=True)


def mark_variables_written(builder: tf.compat.v1.saved_model.Builder) -> None:
    """Makes a `tf.compat.v1.saved_model.Builder` accept graphs before, or without, the values of variables.

    Its public methods require these with the first graph.
    """
    builder._has_saved_variables = True


def parse_saved_model(folder: str) -> saved_model_pb2.SavedModel:
    """Returns the SavedModel message of a folder, from `saved_model.pb` or `saved_model.pbtxt`, split ones included.

    The public functions load the model, or print it.

    Raises:
      OSError, ValueError: When there is none, or it cannot be read.
    """
    from tensorflow.python.saved_model import loader_impl

    return loader_impl.parse_saved_model(folder)


def decode_structure(message: struct_pb2.StructuredValue) -> Any:
    """Returns the nested structure of tensor specs that a StructuredValue of a SavedModel holds.

    Public functions return it only for a model that is loaded.

    Raises:
      TypeError, ValueError, AttributeError: When it holds something else.
    """
    from tensorflow.python.saved_model import nested_structure_coder

    return nested_structure_coder.decode_proto(message)


def is_registered_op(name: str) -> bool:
    """Returns whether this process has an op; `tf.raw_ops` knows TensorFlow's own only."""
    from tensorflow.python.framework import op_def_registry

    return op_def_registry.get(name) is not None


# Input pipelines


def pipeline_builders() -> list[tuple[object, str]]:
    """Returns the hook points within which the functions of a `tf.data` pipeline are traced, and examples parsed.

    There are many public ways to parse, in and out of graphs; each of them passes one of these.
    """
    from tensorflow.python.data.experimental.ops import parsing_ops
    from tensorflow.python.data.ops import structured_function

    return [(structured_function.StructuredFunctionWrapper, "__init__"), (parsing_ops._ParseExampleDataset, "__init__")]


def feature_spec_reader() -> tuple[object, str]:
    """Returns the hook point that every feature spec passes before it parses; it gets the spec first."""
    from tensorflow.python.ops import parsing_config

    return parsing_config._ParseOpParams, "from_features"


def batch_size_of(dataset: tf.data.Dataset) -> int | None:
    """Returns the batch size of a `tf.data` dataset if its last transformation is `batch`; else None.

    `element_spec` has it only where the last batch is dropped.
    """
    import tensorflow as tf

    size = getattr(dataset, "_batch_size", None)
    value = tf.get_static_value(size) if size is not None else None
    return None if value is None else int(value)


def inputs_of(dataset: tf.data.Dataset) -> Sequence[tf.data.Dataset]:
    """Returns the datasets that a `tf.data` dataset is made of; its graph, which is public, has no Python objects."""
    inputs: Sequence[tf.data.Dataset] = getattr(dataset, "_inputs", tuple)()
    return inputs


# Strategies


def has_coordinator(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether Keras runs its steps by a `ClusterCoordinator`, as it does with parameter servers.

    Keras asks for this attribute, which third parties' strategies may have as well.
    """
    return bool(getattr(strategy, "_should_use_with_coordinator", False))


# Feature columns: `tf.feature_column` has functions that make columns, but neither their classes nor a way to save
# them.


def categorical_column_bases() -> tuple[
    type[feature_column_v2.CategoricalColumn], type[feature_column._CategoricalColumn]
]:
    """Returns the base classes that a categorical column needs for `DenseFeatures`: the present and the first one."""
    from tensorflow.python.feature_column import feature_column, feature_column_v2

    return feature_column_v2.CategoricalColumn, feature_column._CategoricalColumn


def embedding_column_class() -> type[feature_column_v2.EmbeddingColumn]:
    """Returns the class of what `tf.feature_column.embedding_column` makes."""
    from tensorflow.python.feature_column import feature_column_v2

    found: type[feature_column_v2.EmbeddingColumn] = feature_column_v2.EmbeddingColumn
    return found


def are_present_columns(columns: Iterable[FeatureColumn]) -> bool:
    """Returns whether columns are all made of the present classes, not of those of the first feature columns."""
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
    """Returns the column of a configuration."""
    from tensorflow.python.feature_column import serialization

    return serialization.deserialize_feature_column(config, custom_objects, columns_by_name)
