"""Reads inputs, outputs and parsed features of a SavedModel's signatures from its graph, without loading it.

for signature in signatures_of("serving/1795279056"):
    signature.parsed  # features that it reads from serialized tf.Examples; None if it takes none
    signature.outputs  # (ServedOutput("output_0", "float32", (1,), op="Sigmoid"),)
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from ..compat.tensorflow import parse_saved_model
from .graph import Graph, Node, nodes_of
from .output_forms import forms_in, op_of, sources_of
from .parsing_ops import ParsedFeature, Parsing, parsings_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    import tensorflow as tf
    from tensorflow.core.framework import graph_pb2
    from tensorflow.core.protobuf import meta_graph_pb2

    from ..monitoring.run_json import SignatureTensors

# Prefix of an Estimator's signature over tf.Examples, beside the one that takes each feature as a vector. It replaces
# missing values by the defaults used in training, and accepts any number of values. (Estimators name the signatures of
# an alternative receiver after its key in `receiver_tensors_alternatives`.)
EXAMPLES_PREFIX = "examples:"
TRANSFORM_FN = "transform_fn"  # the SavedModel in a Transform graph's folder
_CLASS_OPS = ("ArgMax", "ArgMin", "TopKV2", "LookupTableFindV2", "AsString", "Greater", "GreaterEqual", "Less", "Round")
_TRIVIAL = ("Const", "Identity", "NoOp", "Placeholder", "PartitionedCall", "StatefulPartitionedCall")
_COMMON = 0.8  # minimum share of a function's ops that are in the Transform graph for it to count as contained
Shape = tuple["int | None", ...]


class LoadedModel(Protocol):
    """The type of objects returned by `tf.saved_model.load`."""

    signatures: Mapping[str, tf.types.experimental.ConcreteFunction]


@dataclasses.dataclass(frozen=True)
class ServedTensor:
    """An input or output of a signature.

    Attributes:
      name: Its key.
      dtype: TensorFlow's name of its type.
      shape: Shape without the batch dimension, None for unknown sizes; None if the rank is unknown.
    """

    name: str
    dtype: str
    shape: Shape | None


@dataclasses.dataclass(frozen=True)
class ServedInput(ServedTensor):
    """An input of a signature.

    Attributes:
      parsing: What the graph parses of it; None if it does not parse it.
    """

    parsing: Parsing | None = None

    @property
    def is_parsed(self) -> bool:
        """Whether the graph parses it as serialized records, such as tf.Examples."""
        return self.parsing is not None and not self.parsing.after

    @property
    def parsed_after(self) -> str:
        """The op that makes the records that the graph parses of it, such as "DecodeBase64"; else ""."""
        return self.parsing.after if self.parsing else ""


@dataclasses.dataclass(frozen=True)
class ServedOutput(ServedTensor):
    """An output of a signature.

    Attributes:
      op: The op that computes its values; "" if there are several.
      tensors: Names of the tensors that it is a form of; see `output_forms`.
      root: The tensor that all of its forms are computed from.
      sources: Names of all tensors that it is computed from, with those in `tensors`.
    """

    op: str = ""
    tensors: tuple[str, ...] = ()
    root: str = ""
    sources: frozenset[str] = frozenset()

    @property
    def is_score(self) -> bool:
        """Whether it is a floating-point tensor that is not computed by an op for classes, keys or rounding."""
        return self.dtype in ("float32", "float64", "float16", "bfloat16") and self.op not in _CLASS_OPS

    @property
    def width(self) -> int | None:
        """Size of the last dimension: 1 for a scalar per example, None if unknown."""
        if self.shape is None or None in self.shape[-1:]:
            return None
        return self.shape[-1] if self.shape else 1


@dataclasses.dataclass(frozen=True)
class ServedSignature:
    """A signature of a SavedModel.

    Attributes:
      name: Its name.
      inputs: Its inputs, sorted by key.
      outputs: Its outputs, sorted by key.
      parsed: Features that it parses from tf.Examples; None if its graph parses no input.
      transforms: Whether its graph contains the Transform graph; None if that was not checked.
    """

    name: str
    inputs: tuple[ServedInput, ...]
    outputs: tuple[ServedOutput, ...]
    parsed: tuple[ParsedFeature, ...] | None = None
    transforms: bool | None = None

    @property
    def takes_examples(self) -> bool:
        """Whether it takes serialized tf.Examples: its graph parses one of its inputs."""
        return any(served.is_parsed for served in self.inputs)


def meta_graph_of(model: str) -> meta_graph_pb2.MetaGraphDef:
    """Returns the MetaGraphDef of a SavedModel with the tag "serve".

    Raises:
      OSError, ValueError: If there is no readable SavedModel, or no such graph.
    """
    tags = []
    for graph in parse_saved_model(model).meta_graphs:
        if "serve" in graph.meta_info_def.tags:
            return graph
        tags.append(list(graph.meta_info_def.tags))
    raise ValueError(f"none of its graphs has the tag 'serve'; their tags are {tags}")


def signatures_of(model: str, transform_graph: str | None = None) -> tuple[ServedSignature, ...]:
    """Reads the signatures of a SavedModel.

    Args:
      model: The model's folder.
      transform_graph: A Transform graph's folder, to set `ServedSignature.transforms`; or None.

    Raises:
      OSError, ValueError: If one of the two cannot be read.
    """
    meta_graph = meta_graph_of(model)
    graph, transform = _graph_of(meta_graph), _transform_ops(transform_graph)
    return tuple(_signature(graph, name, definition, transform) for name, definition in _definitions(meta_graph))


def signature_in(
    meta_graph: meta_graph_pb2.MetaGraphDef, name: str, transform_graph: str | None = None
) -> ServedSignature:
    """Reads one signature of a MetaGraphDef; `transform_graph` and errors as for `signatures_of`."""
    definition = {**meta_graph.signature_def}[name]
    return _signature(_graph_of(meta_graph), name, definition, _transform_ops(transform_graph))


def described_signatures(meta_graph: meta_graph_pb2.MetaGraphDef) -> dict[str, SignatureTensors]:
    """Returns the tensors of each signature as text, such as "float32 (?, 4)"."""

    def described(tensors: Mapping[str, meta_graph_pb2.TensorInfo]) -> dict[str, str]:
        return {name: _text_of(info) for name, info in sorted(tensors.items())}

    return {
        name: {"inputs": described(definition.inputs), "outputs": described(definition.outputs)}
        for name, definition in _definitions(meta_graph)
    }


def _text_of(info: meta_graph_pb2.TensorInfo) -> str:
    shape = _shape_of(info)
    sizes = None if shape is None else ", ".join("?" if size is None else str(size) for size in shape)
    return f"{dtype_of(info)} {'?' if sizes is None else f'({sizes})'}"


def _definitions(meta_graph: meta_graph_pb2.MetaGraphDef) -> list[tuple[str, meta_graph_pb2.SignatureDef]]:
    """Returns the signatures, without those that initialize a model."""
    signatures = sorted(meta_graph.signature_def.items())
    return [(name, definition) for name, definition in signatures if not name.startswith("__saved_model")]


def _graph_of(meta_graph: meta_graph_pb2.MetaGraphDef) -> Graph:
    return Graph(meta_graph.graph_def, meta_graph.meta_info_def.stripped_op_list.op)


def _transform_ops(folder: str | None) -> set[tuple[str, str]] | None:
    return _ops_of(meta_graph_of(os.path.join(folder, TRANSFORM_FN)).graph_def) if folder else None


def _signature(
    graph: Graph, name: str, definition: meta_graph_pb2.SignatureDef, transform: set[tuple[str, str]] | None
) -> ServedSignature:
    outputs, tensors = [], []
    for key, info in sorted(definition.outputs.items()):
        tensor = info.name or info.coo_sparse.values_tensor_name
        tensors.append(tensor)
        forms, sources = forms_in(graph, tensor), sources_of(graph, tensor)
        outputs.append(ServedOutput(key, *_described(info), op_of(graph, tensor), *forms, sources))
    # One for all outputs of a node: the functions in its attributes are searched for parsing ops.
    nodes = list({(node.scope, node.definition.name): node for node in graph.walk(tensors)}.values())
    parsings = parsings_of(graph, nodes)
    inputs = []
    for key, info in sorted(definition.inputs.items()):
        parsing = parsings.get(info.name.partition(":")[0]) if dtype_of(info) == "string" else None
        inputs.append(ServedInput(key, *_described(info), parsing))
    transforms = None if transform is None else _contains(nodes, transform)
    parsed = {feature.name: feature for parsing in parsings.values() for feature in parsing.features}
    features = tuple(parsed.values()) if parsings else None
    return ServedSignature(name, tuple(inputs), tuple(outputs), features, transforms)


def _described(info: meta_graph_pb2.TensorInfo) -> tuple[str, Shape | None]:
    shape = _shape_of(info)
    return dtype_of(info), None if shape is None else shape[1:]


def _shape_of(info: meta_graph_pb2.TensorInfo) -> Shape | None:
    if info.tensor_shape.unknown_rank:
        return None
    return tuple(None if dim.size < 0 else dim.size for dim in info.tensor_shape.dim)


def dtype_of(info: meta_graph_pb2.TensorInfo) -> str:
    """Returns the name of a tensor's dtype, such as "float32" or "RaggedTensor of float32"."""
    import tensorflow as tf

    if not info.HasField("composite_tensor"):
        return str(tf.dtypes.as_dtype(info.dtype).name) if info.dtype else "variant"
    kind = info.composite_tensor.type_spec.type_spec_class_name.removesuffix("Spec")
    parts = [dtype_of(part) for part in info.composite_tensor.components[:1]]
    return " of ".join([kind, *parts])


def _contains(nodes: Iterable[Node], transform: set[tuple[str, str]]) -> bool:
    """Whether one of the nodes' functions is the Transform graph, from which nodes may have been pruned."""
    by_scope: dict[int, set[tuple[str, str]]] = {}
    for node in nodes:
        if node.scope.function is not None and node.op not in _TRIVIAL:
            by_scope.setdefault(id(node.scope), set()).add((node.definition.name, node.op))
    return any(len(own & transform) >= max(1, _COMMON * len(own)) for own in by_scope.values())


def _ops_of(graph_def: graph_pb2.GraphDef) -> set[tuple[str, str]]:
    """Returns (name, op) of all nodes with non-trivial ops."""
    return {(node.name, node.op) for node in nodes_of(graph_def) if node.op not in _TRIVIAL}
