"""Traces tensors of a SavedModel's graph back to their producers, through the bodies of called functions.

graph = Graph(meta_graph.graph_def)
[node.op for node in graph.producers("StatefulPartitionedCall:0")]  # ["Sigmoid"]
graph.sources("StatefulPartitionedCall:0")  # {"serving_default_examples"}: placeholders that it depends on
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensorflow.core.framework import function_pb2, graph_pb2, node_def_pb2, tensor_pb2

_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
# Ops that pass on or rearrange the values of one input.
_REARRANGING = (
    *("Identity", "Cast", "StopGradient", "PreventGradient", "CheckNumerics", "PlaceholderWithDefault"),
    *("Reshape", "Squeeze", "ExpandDims", "EnsureShape", "Transpose"),
    *("Slice", "StridedSlice", "Split", "SplitV", "Unpack", "GatherV2"),
)
_JOINING = ("ConcatV2", "Concat", "Pack", "IdentityN")
PLACEHOLDER = "Placeholder"


@dataclasses.dataclass(eq=False)
class Scope:
    """The top-level graph, or the body of one function call.

    Attributes:
      nodes: Nodes by name.
      function: The function's definition; None for the top-level graph.
      parent: The calling scope; None for the top-level graph.
      arguments: {argument of the function: tensor in the calling scope}.
      children: Scopes of function calls in this one, by the calling node's name.
    """

    nodes: Mapping[str, node_def_pb2.NodeDef]
    function: function_pb2.FunctionDef | None = None
    parent: Scope | None = None
    arguments: Mapping[str, str] = dataclasses.field(default_factory=dict)
    children: dict[str, Scope] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Node:
    """One output of a node.

    Attributes:
      scope: The scope that contains the node and in which its inputs are named.
      definition: The NodeDef.
      output: Index of the output.
    """

    scope: Scope
    definition: node_def_pb2.NodeDef
    output: int

    @property
    def op(self) -> str:
        """The node's operation."""
        return str(self.definition.op)

    @property
    def inputs(self) -> list[str]:
        """Names of the input tensors, without control inputs."""
        return [name for name in self.definition.input if not name.startswith("^")]


class Graph:
    """A GraphDef with queries on the dependencies of tensors.

    Args:
      graph_def: The graph with its function library.
    """

    def __init__(self, graph_def: graph_pb2.GraphDef) -> None:
        self._library = {function.signature.name: function for function in graph_def.library.function}
        self.top = Scope({node.name: node for node in graph_def.node})

    def node(self, tensor: str, scope: Scope | None = None) -> Node | None:
        """Returns the node that produces a tensor, resolving function calls and arguments; None if not found."""
        hops = list(self.hops(tensor, scope))
        return hops[-1] if hops and self._called(hops[-1].definition) is None else None

    def hops(self, tensor: str, scope: Scope | None = None) -> Iterator[Node]:
        """Yields the function calls that return a tensor, outermost first, then the node that produces it."""
        scope = scope or self.top
        while True:
            head, *rest = tensor.split(":")
            if head in scope.arguments and scope.parent is not None:
                tensor, scope = scope.arguments[head], scope.parent
                continue
            definition = scope.nodes.get(head)
            if definition is None:
                return
            index = int(rest[-1]) if rest and rest[-1].isdigit() else 0
            yield Node(scope, definition, index)
            function = self._called(definition)
            if function is None:
                return
            outputs = [one.name for one in function.signature.output_arg]
            named = rest[0] if len(rest) > 1 and rest[0] in outputs else ""
            if not named and index >= len(outputs):
                return
            tensor, scope = function.ret[named or outputs[index]], self._child(scope, definition, function)

    def nodes(self, tensors: Sequence[str], scope: Scope | None = None, until: Collection[str] = ()) -> Iterator[Node]:
        """Yields every node that tensors of a scope, by default the top-level graph, depend on, each once.

        Does not go beyond nodes with an op in `until`.
        """
        waiting: list[tuple[str, Scope]] = [(name, scope or self.top) for name in tensors]
        seen: set[tuple[int, str]] = set()
        while waiting:
            name, scope = waiting.pop()
            found = self.node(name, scope)
            if found is None or (key := (id(found.scope), found.definition.name)) in seen:
                continue
            seen.add(key)
            yield found
            if found.op not in until:
                waiting += [(one, found.scope) for one in found.inputs]

    def sources(self, tensor: str) -> set[str]:
        """Returns the names of the placeholders that a tensor depends on."""
        return {str(one.definition.name) for one in self.nodes([tensor]) if one.op == PLACEHOLDER}

    def producers(self, tensor: str) -> Iterator[Node]:
        """Yields the nodes that compute a tensor's values, skipping ops that only rearrange values."""
        waiting: list[tuple[str, Scope]] = [(tensor, self.top)]
        seen: set[tuple[int, str, int]] = set()
        while waiting:
            name, scope = waiting.pop()
            node = self.node(name, scope)
            if node is None or (key := (id(node.scope), node.definition.name, node.output)) in seen:
                continue
            seen.add(key)
            if (passed := self._passed_on(node)) is None:
                yield node
            else:
                waiting += [(one, node.scope) for one in passed]

    def constant(self, tensor: str, scope: Scope) -> tensor_pb2.TensorProto | None:
        """Returns the TensorProto of a constant tensor, or None for a computed one."""
        node = self.node(tensor, scope)
        while node is not None and node.op == "Identity":
            node = self.node(node.inputs[0], node.scope)
        return node.definition.attr["value"].tensor if node is not None and node.op == "Const" else None

    def bodies_called_by(self, node: Node) -> Iterator[Sequence[node_def_pb2.NodeDef]]:
        """Yields the nodes of each function in a node's attributes, such as a branch of an If, recursively."""
        waiting, seen = [node.definition], set()
        while waiting:
            for attribute in waiting.pop().attr.values():
                for function in (attribute.func, *attribute.list.func):
                    if function.name in self._library and function.name not in seen:
                        seen.add(function.name)
                        yield self._library[function.name].node_def
                        waiting += self._library[function.name].node_def

    def _passed_on(self, node: Node) -> list[str] | None:
        inputs = node.inputs
        if node.op in _JOINING:
            if node.op == "IdentityN":
                return [inputs[node.output]]
            return inputs[:-1] if node.op == "ConcatV2" else inputs[1:] if node.op == "Concat" else inputs
        if node.op == "Sub" and self.constant(inputs[0], node.scope) is not None:
            return inputs[1:]  # 1 - p, in a tensor of [1 - p, p]
        if node.op in _REARRANGING:
            return inputs[1:2] if node.op == "Split" else inputs[:1]
        return None

    def _called(self, definition: node_def_pb2.NodeDef) -> function_pb2.FunctionDef | None:
        if definition.op in _CALLS:
            return self._library.get(definition.attr["f"].func.name)
        return self._library.get(definition.op)

    def _child(self, scope: Scope, definition: node_def_pb2.NodeDef, function: function_pb2.FunctionDef) -> Scope:
        if definition.name not in scope.children:
            nodes = {node.name: node for node in function.node_def}
            names = [one.name for one in function.signature.input_arg]
            inputs = [name for name in definition.input if not name.startswith("^")]
            arguments = dict(zip(names, inputs, strict=False))
            scope.children[definition.name] = Scope(nodes, function, scope, arguments)
        return scope.children[definition.name]
