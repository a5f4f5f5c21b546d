"""Traces tensors of a SavedModel's graph back to their producers, through the bodies of called functions.

graph = Graph(meta_graph.graph_def)
[node.op for node in graph.producers("StatefulPartitionedCall:0")]  # ["Sigmoid"]
graph.sources("StatefulPartitionedCall:0")  # {"serving_default_examples"}: placeholders that it depends on
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensorflow.core.framework import function_pb2, graph_pb2, node_def_pb2, op_def_pb2, tensor_pb2

_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_DATASETS = ("TensorDataset", "TensorSliceDataset")
_SAME_ELEMENTS = ("BatchDatasetV2", "OptionsDataset", "PrefetchDataset", "RepeatDataset", "TakeDataset")
_BRANCHING = ("If", "StatelessIf", "Case", "StatelessCase")  # the first input selects the branch
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
      children: Scopes of function calls in this one, by the names of the calling node and of the function.
    """

    nodes: Mapping[str, node_def_pb2.NodeDef]
    function: function_pb2.FunctionDef | None = None
    parent: Scope | None = None
    arguments: Mapping[str, str] = dataclasses.field(default_factory=dict)
    children: dict[tuple[str, str], Scope] = dataclasses.field(default_factory=dict)


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
      ops: Definitions of its ops, for `may_have_strings`.
    """

    def __init__(self, graph_def: graph_pb2.GraphDef, ops: Iterable[op_def_pb2.OpDef] = ()) -> None:
        self._library = {function.signature.name: function for function in graph_def.library.function}
        self._ops = {op.name: op for op in ops}
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

    def nodes(
        self, tensors: Sequence[str], scope: Scope | None = None, until: Callable[[Node], bool] = lambda node: False
    ) -> Iterator[Node]:
        """Yields every node that tensors of a scope, by default the top-level graph, depend on, each once.

        Does not go beyond nodes for which `until` is true.
        """
        waiting: list[tuple[str, Scope]] = [(name, scope or self.top) for name in tensors]
        seen: set[tuple[int, str]] = set()
        while waiting:
            name, scope = waiting.pop()
            node = self.node(name, scope)
            if node is None or (key := (id(node.scope), node.definition.name)) in seen:
                continue
            seen.add(key)
            yield node
            if not until(node):
                waiting += [(operand, node.scope) for operand in node.inputs]

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

    def nodes_in_bodies(self, node: Node) -> Iterator[Node]:
        """Yields the nodes of each function in a node's attributes, such as a branch of an If, recursively."""
        attributes = [*node.definition.attr.values()]
        functions = [function.name for attribute in attributes for function in (attribute.func, *attribute.list.func)]
        for function in filter(None, map(self._library.get, functions)):
            scope = self._child(node.scope, node.definition, function)
            for definition in scope.nodes.values():
                yield (inner := Node(scope, definition, 0))
                yield from self.nodes_in_bodies(inner)

    def may_have_strings(self, node: Node) -> bool:
        """Whether a node may have strings: as its output, or in a list, dataset or other container."""
        from tensorflow.core.framework import types_pb2

        if node.op not in self._ops or node.op.startswith("TensorArray"):  # its `flow` of floats orders the accesses
            return True
        op, types = self._ops[node.op], set()
        attributes = {**{default.name: default.default_value for default in op.attr}, **node.definition.attr}
        for output in op.output_arg:
            listed = attributes[output.type_list_attr].list.type if output.type_list_attr else ()
            types |= {*listed} or {output.type or attributes[output.type_attr].type}
        return not types.isdisjoint({types_pb2.DT_STRING, types_pb2.DT_VARIANT, types_pb2.DT_RESOURCE})

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
        key = (definition.name, function.signature.name)
        if key not in scope.children:
            nodes = {node.name: node for node in function.node_def}
            names = [argument.name for argument in function.signature.input_arg]
            arguments = dict(zip(names, self._passed(scope, definition, len(names)), strict=False))
            scope.children[key] = Scope(nodes, function, scope, arguments)
        return scope.children[key]

    def _passed(self, scope: Scope, definition: node_def_pb2.NodeDef, count: int) -> list[str]:
        """Returns the tensors that a node passes to the `count` arguments of its function."""
        inputs = [name for name in definition.input if not name.startswith("^")]
        if "Targuments" not in definition.attr:
            return inputs[definition.op in _BRANCHING :]
        # An op of a dataset passes its state, the dataset's elements, and tensors from outside of the function.
        dataset, *others = inputs
        state, captured = (len(definition.attr[name].list.type) for name in ("Tstate", "Targuments"))
        elements = self._elements(dataset, scope, count - state - captured)
        return [*others[:state], *elements, *others[state : state + captured]]

    def _elements(self, dataset: str, scope: Scope, count: int) -> list[str]:
        """Returns the tensor that each part of a dataset's elements is from; the dataset itself if that is unknown."""
        node = self.node(dataset, scope)
        while node is not None and node.op in _SAME_ELEMENTS:
            node = self.node(node.inputs[0], node.scope)
        is_known = node is not None and node.scope is scope and node.op in _DATASETS and len(node.inputs) == count
        return node.inputs if node is not None and is_known else [dataset] * count
