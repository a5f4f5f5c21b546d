"""Loads one signature of a SavedModel, with what its graph reads.

The inputs of a signature that takes serialized tf.Examples do not show which features it parses. The parsing op in its
graph does: it has the features' names as constants and their types as attributes.

Usage:

    signature = load_signature("serving/1795279056", None)
    signature.inputs    # {"examples": TensorSpec(shape=(None,), dtype=tf.string)}
    signature.parsed    # {"trip_miles": INT, …}
    signature({"examples": np.array([b"…"], object)})
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from ...errors import InputError, did_you_mean
from ...inputs.csv.columns import BYTES, FLOAT, INT
from ..op_package_imports import import_packages_for
from ..signatures import EXAMPLES_PREFIX, ServedSignature, meta_graph_of, signature_in
from ..tensor_values import UnreadableTensorError, plain_array

if TYPE_CHECKING:
    import pyarrow as pa
    from tensorflow.core.protobuf import meta_graph_pb2

    from ..signatures import LoadedModel
    from ..tensor_values import Tensor

_DEFAULTS = ("serving_default", "predict")
_TYPES = {"int64": INT, "float32": FLOAT, "string": BYTES}


@dataclasses.dataclass(frozen=True)
class ServingSignature:
    """A loaded, callable signature.

    Attributes:
      served: The signature as its graph shows it.
      inputs: {input: tf.TensorSpec}.
      function: The concrete function.
      model: The object returned by `tf.saved_model.load`; keeps the function's variables alive.
    """

    served: ServedSignature
    inputs: Mapping[str, tf.TensorSpec]
    function: tf.types.experimental.ConcreteFunction
    model: LoadedModel

    @property
    def name(self) -> str:
        """Its name in the model."""
        return self.served.name

    @property
    def parsed(self) -> dict[str, pa.DataType] | None:
        """{feature: INT, FLOAT or BYTES} that its graph parses, as far as known; None if it has no parsing op."""
        if self.served.parsed is None:
            return None
        return {feature.name: _TYPES[feature.dtype] for feature in self.served.parsed if feature.dtype in _TYPES}

    @property
    def required(self) -> frozenset[str]:
        """The features that it parses and that an example must have."""
        return frozenset(feature.name for feature in self.served.parsed or () if feature.required)

    @property
    def batch_size(self) -> int | None:
        """The fixed batch size, 1 if an input has no batch dimension; None if the batch size is free."""
        shapes = [spec.shape for spec in self.inputs.values() if spec.shape.rank is not None]
        sizes = {shape[0] if shape.rank else 1 for shape in shapes}
        fixed = sorted(size for size in sizes if size is not None)
        return fixed[0] if fixed else None

    def __call__(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Runs the signature.

        Args:
          values: {input: array of `batch_size` examples}.

        Returns:
          {output: array, as by `plain_array`}; a batch dimension is added if no input has one.

        Raises:
          UnreadableTensorError: If an output has a dtype without readable values, such as a variant.
        """
        scalar = [name for name, spec in self.inputs.items() if spec.shape.rank == 0]
        tensors = {
            name: tf.constant(value[0] if name in scalar else value, dtype=self.inputs[name].dtype)
            for name, value in values.items()
        }
        outputs = {name: self._array(name, tensor) for name, tensor in self.function(**tensors).items()}
        unbatched = len(scalar) == len(self.inputs)
        return {name: value[np.newaxis] if unbatched else value for name, value in outputs.items()}

    def _array(self, name: str, tensor: Tensor) -> np.ndarray:
        try:
            return plain_array(tensor)
        except UnreadableTensorError as error:
            raise UnreadableTensorError(
                f"The output {name!r} of the signature {self.name!r}: {error}. Export a signature without it, and "
                "select it with --signature."
            ) from error


def load_signature(
    model: str, name: str | None, op_packages: Mapping[str, Sequence[str]] | None = None
) -> ServingSignature:
    """Loads a SavedModel and selects a signature.

    Args:
      model: The SavedModel's folder.
      name: The signature's name; None for `serving_default`, `predict`, or the only one.
      op_packages: Packages to import first because they register ops; see `CheckReport`.

    Raises:
      InputError: If the model cannot be loaded, or has no such signature; lists the available ones.
    """
    graph = _serving_graph(model)
    import_packages_for([op.name for op in graph.meta_info_def.stripped_op_list.op], op_packages or {}, model)
    try:
        loaded = tf.saved_model.load(model, tags=list(graph.meta_info_def.tags))
    except Exception as error:  # a damaged model may raise any exception
        raise InputError(f"--model {model} cannot be loaded: {type(error).__name__}: {error}") from error
    chosen = _choose(list(loaded.signatures), name, model)
    function = loaded.signatures[chosen]
    return ServingSignature(signature_in(graph, chosen), function.structured_input_signature[1], function, loaded)


def _serving_graph(model: str) -> meta_graph_pb2.MetaGraphDef:
    try:
        return meta_graph_of(model)
    except (OSError, ValueError) as error:
        raise InputError(f"--model {model} is truncated or corrupted, or has no graph for serving: {error}") from error


def _choose(there: list[str], name: str | None, model: str) -> str:
    known = ", ".join(sorted(there)) or "none"
    if name is not None:
        if name not in there:
            raise InputError(f"--model {model} has no signature {name!r}; it has {known}.{did_you_mean(name, there)}")
        return name
    for default in _DEFAULTS:
        if default in there:
            return EXAMPLES_PREFIX + default if EXAMPLES_PREFIX + default in there else default
    if len(there) != 1:
        wanted = " or ".join(_DEFAULTS)
        raise InputError(f"--model {model} has no signature {wanted}; it has {known}. Select one with --signature.")
    return there[0]
