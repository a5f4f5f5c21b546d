"""Loads one signature of a SavedModel, with its inputs and the features that its graph parses.

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
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from ...compat.tensorflow import parse_saved_model
from ...errors import InputError, did_you_mean
from ...inputs.csv.columns import BYTES, FLOAT, INT
from ..custom_ops import import_packages_for
from ..parsing_ops import OTHER_PARSERS, PARSERS, ParsedFeature, parsed_by
from ..tensor_values import UnreadableTensorError, plain_array

if TYPE_CHECKING:
    import pyarrow as pa
    from tensorflow.core.framework import graph_pb2, node_def_pb2
    from tensorflow.core.protobuf import meta_graph_pb2

    from ..signatures import LoadedModel
    from ..tensor_values import Tensor

_DEFAULTS = ("serving_default", "predict")
# Name prefix of a DLRover model's signature over tf.Examples, beside the one that takes each column of the conf as a
# vector. It replaces missing values by the defaults used in training, and accepts any number of values.
_EXAMPLES_PREFIX = "examples:"
_TYPES = {"int64": INT, "float32": FLOAT, "string": BYTES}


@dataclasses.dataclass(frozen=True)
class ServingSignature:
    """A loaded, callable signature.

    Attributes:
      name: Its name in the model.
      inputs: {input: tf.TensorSpec}.
      parsed: {feature: INT, FLOAT or BYTES} that its graph parses from tf.Examples, as far as known; None if the graph
        has no parsing op.
      required: Features among them that an example must have.
      function: The concrete function.
      model: The object returned by `tf.saved_model.load`; keeps the function's variables alive.
    """

    name: str
    inputs: Mapping[str, tf.TensorSpec]
    parsed: Mapping[str, pa.DataType] | None
    function: tf.types.experimental.ConcreteFunction
    model: LoadedModel
    required: frozenset[str] = frozenset()

    @property
    def record_input(self) -> str | None:
        """The name of the only input if its dtype and shape fit serialized records, else None."""
        if len(self.inputs) != 1:
            return None
        [(name, spec)] = self.inputs.items()
        return name if spec.dtype == tf.string and (spec.shape.rank is None or spec.shape.rank <= 1) else None

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


def load_signature(model: str, name: str | None, op_packages: Sequence[str] = ()) -> ServingSignature:
    """Loads a SavedModel and selects a signature.

    Args:
      model: The SavedModel's folder.
      name: The signature's name; None for `serving_default`, `predict`, or the only one.
      op_packages: Packages to import first because they register TensorFlow ops.

    Raises:
      InputError: If the model cannot be loaded, or has no such signature; lists the available ones.
    """
    graph = _serving_graph(model)
    import_packages_for([op.name for op in graph.meta_info_def.stripped_op_list.op], op_packages, model)
    try:
        loaded = tf.saved_model.load(model, tags=list(graph.meta_info_def.tags))
    except Exception as error:  # a damaged model may raise any exception
        raise InputError(f"--model {model} cannot be loaded: {type(error).__name__}: {error}") from error
    chosen = _choose(list(loaded.signatures), name, model)
    function = loaded.signatures[chosen]
    inputs = function.structured_input_signature[1]
    found = _parsed_features(function.graph.as_graph_def())
    parsed = None if found is None else {one.name: _TYPES[one.dtype] for one in found if one.dtype in _TYPES}
    required = frozenset(one.name for one in found or () if one.required)
    return ServingSignature(chosen, inputs, parsed, function, loaded, required)


def _serving_graph(model: str) -> meta_graph_pb2.MetaGraphDef:
    try:
        graphs = parse_saved_model(model).meta_graphs
    except (OSError, ValueError) as error:
        raise InputError(f"--model {model} is truncated or corrupted: {error}") from error
    for graph in graphs:
        if "serve" in graph.meta_info_def.tags:
            return graph
    tags = [list(graph.meta_info_def.tags) for graph in graphs]
    raise InputError(f"--model {model}: none of its graphs has the tag 'serve'; their tags are {tags}.")


def _choose(there: list[str], name: str | None, model: str) -> str:
    known = ", ".join(sorted(there)) or "none"
    if name is not None:
        if name not in there:
            raise InputError(f"--model {model} has no signature {name!r}; it has {known}.{did_you_mean(name, there)}")
        return name
    for default in _DEFAULTS:
        if default in there:
            return _EXAMPLES_PREFIX + default if _EXAMPLES_PREFIX + default in there else default
    if len(there) != 1:
        wanted = " or ".join(_DEFAULTS)
        raise InputError(f"--model {model} has no signature {wanted}; it has {known}. Select one with --signature.")
    return there[0]


def _parsed_features(graph: graph_pb2.GraphDef) -> list[ParsedFeature] | None:
    """Returns the features of all parsing ops in a graph; None without such an op."""
    found: list[ParsedFeature] = []
    parses = False
    for nodes in _bodies(graph):
        constants = {node.name: node.attr["value"].tensor for node in nodes if node.op == "Const"}
        for node in nodes:
            parses = parses or node.op in (*PARSERS, *OTHER_PARSERS)
            if node.op in PARSERS:
                found += parsed_by(node, lambda name, known=constants: known.get(name.partition(":")[0]))  # type: ignore[misc]
    return found if parses else None


def _bodies(graph: graph_pb2.GraphDef) -> Iterator[Sequence[node_def_pb2.NodeDef]]:
    """Yields the nodes of a graph, and of every function called in it, directly or indirectly."""
    library = {function.signature.name: function.node_def for function in graph.library.function}
    waiting, seen = [graph.node], set()
    while waiting:
        nodes = waiting.pop()
        yield nodes
        for node in nodes:
            for attribute in node.attr.values():
                for function in (attribute.func, *attribute.list.func):
                    if function.name in library and function.name not in seen:
                        seen.add(function.name)
                        waiting.append(library[function.name])
