"""Extracts from a graph's parsing ops what they parse, and which features they parse from serialized tf.Examples."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from .graph import PLACEHOLDER, Graph, Node

if TYPE_CHECKING:
    from tensorflow.core.framework import node_def_pb2, tensor_pb2

_EXAMPLE_PARSERS = ("ParseExampleV2", "ParseExample", "ParseSingleExample")
# Ops that parse serialized records too, but of other kinds or with keys that are not constant inputs.
_OTHER_PARSERS = ("ParseSequenceExampleV2", "ParseSequenceExample", "ParseSingleSequenceExample", "DecodeProtoV2")
_PARSERS = (*_EXAMPLE_PARSERS, *_OTHER_PARSERS)
# Ops that make records of something else: of encoded text, of compressed bytes, of a path, or of a key.
_DECODERS = (
    "DecodeBase64",
    "DecodeJSONExample",
    "DecodeCompressed",
    "ReadFile",
    "LookupTableFindV2",
    "LookupTableFind",
)
_SHAPES = ("Shape", "ShapeN", "Size", "Rank")
Constant = Callable[[str], "tensor_pb2.TensorProto | None"]  # returns the TensorProto of a constant input, else None


@dataclasses.dataclass(frozen=True)
class ParsedFeature:
    """A feature that a signature parses from a tf.Example.

    Attributes:
      name: The feature's name.
      dtype: "int64", "float32" or "string".
      is_dense: Whether it is parsed into a dense tensor, rather than a sparse or ragged one.
      required: Whether an example without it is an error: it is dense and has no default.
    """

    name: str
    dtype: str
    is_dense: bool = True
    required: bool = True


def parsers_among(graph: Graph, nodes: Iterable[Node]) -> Iterator[tuple[Node, list[ParsedFeature]]]:
    """Yields the nodes that parse records, themselves or in a function such as a loop's body, with the features."""
    for node in nodes:
        own: Constant = functools.partial(graph.constant, scope=node.scope)
        bodies = [([node.definition], own), *((body, _constants_of(body)) for body in graph.bodies_called_by(node))]
        for definitions, constant in bodies:
            for definition in definitions:
                if definition.op in _PARSERS:
                    yield node, list(_parsed_by(definition, constant)) if definition.op in _EXAMPLE_PARSERS else []


def parsed_nodes(graph: Graph, parsers: Iterable[Node]) -> dict[str, str]:
    """Returns {placeholder: op that makes records of it, "" if it has records itself} for what parsers read."""
    records: dict[str, str] = {}
    for parser in parsers:
        is_direct = parser.op in _PARSERS  # else a function does, such as that of a loop or of a dataset
        for operand in parser.inputs[:1] if is_direct else parser.inputs:
            path = list(graph.nodes([operand], parser.scope, until=_SHAPES))
            decoder = next((node.op for node in path if node.op in _DECODERS), "")
            for node in path:
                if node.op == PLACEHOLDER:
                    records[node.definition.name] = decoder and records.get(node.definition.name, decoder)
    return records


def _constants_of(body: Sequence[node_def_pb2.NodeDef]) -> Constant:
    constants = {node.name: node.attr["value"].tensor for node in body if node.op == "Const"}
    return lambda name: constants.get(name.partition(":")[0])


def _parsed_by(node: node_def_pb2.NodeDef, constant: Constant) -> Iterator[ParsedFeature]:
    import tensorflow as tf

    def strings(inputs: Sequence[str]) -> list[str]:
        tensors = [constant(name) for name in inputs]
        arrays = [tf.make_ndarray(tensor) for tensor in tensors if tensor is not None]
        return [key.decode() for array in arrays for key in array.ravel()]

    inputs = [name for name in node.input if not name.startswith("^")]
    ragged: list[str] = []
    if node.op == "ParseSingleExample":
        sparse = [key.decode() for key in node.attr["sparse_keys"].list.s]
        dense = [key.decode() for key in node.attr["dense_keys"].list.s]
        defaults = inputs[1:]
    elif node.op == "ParseExample":
        split = 2 + node.attr["Nsparse"].i
        end = split + node.attr["Ndense"].i
        sparse, dense, defaults = strings(inputs[2:split]), strings(inputs[split:end]), inputs[end:]
    else:
        sparse, dense, ragged = (strings([name]) for name in inputs[2:5])
        defaults = inputs[5:]
    for names, types in ((sparse, "sparse_types"), (ragged, "ragged_value_types")):
        for name, kind in zip(names, node.attr[types].list.type):  # noqa: B905  (fewer if computed)
            yield ParsedFeature(name, tf.dtypes.as_dtype(kind).name, is_dense=False, required=False)
    for number, (name, kind) in enumerate(zip(dense, node.attr["Tdense"].list.type)):  # noqa: B905
        default = constant(defaults[number]) if number < len(defaults) else None
        has_default = default is None or tf.make_ndarray(default).size > 0  # an empty constant means no default
        yield ParsedFeature(name, tf.dtypes.as_dtype(kind).name, required=not has_default)
