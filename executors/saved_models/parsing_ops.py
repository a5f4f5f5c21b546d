"""Extracts from a graph's parsing ops what they parse, and which features they parse from serialized tf.Examples."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Sequence

from .graph import PLACEHOLDER, Graph, Node, Tensor

_EXAMPLE_PARSERS = ("ParseExampleV2", "ParseExample", "ParseSingleExample")
# Ops that parse serialized records too, but of other kinds or with keys that are not constant inputs.
_OTHER_PARSERS = ("ParseSequenceExampleV2", "ParseSequenceExample", "ParseSingleSequenceExample", "DecodeProtoV2")
_PARSERS = (*_EXAMPLE_PARSERS, *_OTHER_PARSERS)
_RECORD_MESSAGES = ("tensorflow.Example", "tensorflow.SequenceExample", "tensorflow.serving.ExampleListWithContext")
# Ops that make records of something else: of encoded text, of compressed bytes, of a path, or of a key.
_DECODERS = (
    "DecodeBase64",
    "DecodeJSONExample",
    "DecodeCompressed",
    "ReadFile",
    "LookupTableFindV2",
    "LookupTableFind",
)


@dataclasses.dataclass(frozen=True)
class ParsedFeature:
    """A feature that a signature parses from a tf.Example.

    Attributes:
      name: The feature's name.
      dtype: "int64", "float32" or "string".
      required: Whether an example without it is an error: it is dense and has no default.
    """

    name: str
    dtype: str
    required: bool = True


@dataclasses.dataclass(frozen=True)
class Parsing:
    """What a graph parses of an input.

    Attributes:
      features: The features that it parses of tf.Examples, as far as known.
      of_messages: Whether it parses other messages than examples.
      after: The op that makes the records that it parses, such as "DecodeBase64"; "" if the input has them itself.
    """

    features: tuple[ParsedFeature, ...] = ()
    of_messages: bool = False
    after: str = ""

    def fits(self, features: Collection[str]) -> bool:
        """Whether tf.Examples with these features may be what it parses."""
        if not self.features:
            return not self.of_messages
        names = {feature.name for feature in self.features}
        required = {feature.name for feature in self.features if feature.required}
        return required <= {*features} and not names.isdisjoint(features)


def parsings_of(graph: Graph, nodes: Iterable[Node]) -> dict[str, Parsing]:
    """Returns {placeholder: what is parsed of it}, by the nodes themselves or in functions such as a loop's body."""
    parsings: dict[str, Parsing] = {}
    for parser in _parsers_among(graph, nodes):
        path = list(graph.walk(parser.inputs[:1], parser.scope, lambda node: _strings_behind(graph, node)))
        after = next((node.op for node in path if node.op in _DECODERS), "")
        own = _parsing(graph, parser, after)
        for node in path:
            if node.op == PLACEHOLDER:
                name = node.definition.name
                parsings[name] = _joined(parsings[name], own) if name in parsings else own
    return parsings


def _parsers_among(graph: Graph, nodes: Iterable[Node]) -> Iterator[Node]:
    for outer in nodes:
        inner = () if graph.is_transparent(outer) else graph.nodes_in_bodies(outer)  # a call's are among `nodes`
        yield from (node for node in (outer, *inner) if node.op in _PARSERS)


def _strings_behind(graph: Graph, node: Node) -> list[Tensor]:
    """Returns what the records in a node are made of: nothing for a parsed feature, or for numbers such as a shape."""
    return [] if node.op in _PARSERS or not graph.may_have_strings(node) else graph.operands(node)


def _parsing(graph: Graph, parser: Node, after: str) -> Parsing:
    if parser.op in _EXAMPLE_PARSERS:
        return Parsing(tuple(_parsed_by(graph, parser)), after=after)
    message = parser.definition.attr["message_type"].s.decode()
    return Parsing(of_messages=bool(message) and message not in _RECORD_MESSAGES, after=after)


def _joined(first: Parsing, second: Parsing) -> Parsing:
    features = {feature.name: feature for feature in (*first.features, *second.features)}
    return Parsing(tuple(features.values()), first.of_messages and second.of_messages, first.after and second.after)


def _parsed_by(graph: Graph, parser: Node) -> Iterator[ParsedFeature]:
    import tensorflow as tf

    def strings(inputs: Sequence[str]) -> list[str]:
        tensors = [graph.constant(name, parser.scope) for name in inputs]
        arrays = [tf.make_ndarray(tensor) for tensor in tensors if tensor is not None]
        return [key.decode() for array in arrays for key in array.ravel()]

    node, inputs = parser.definition, parser.inputs
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
            yield ParsedFeature(name, tf.dtypes.as_dtype(kind).name, required=False)
    for number, (name, kind) in enumerate(zip(dense, node.attr["Tdense"].list.type)):  # noqa: B905
        default = graph.constant(defaults[number], parser.scope) if number < len(defaults) else None
        has_default = default is None or tf.make_ndarray(default).size > 0  # an empty constant means no default
        yield ParsedFeature(name, tf.dtypes.as_dtype(kind).name, required=not has_default)
