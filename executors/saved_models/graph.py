"""Traces tensors of a SavedModel's graph back to their producers, through the bodies of called functions.

graph = Graph(meta_graph.graph_def)
[node.op for node in graph.walk(["StatefulPartitionedCall:0"])]  # ["StatefulPartitionedCall", "Sigmoid", "BiasAdd", …]
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from tensorflow.core.framework import function_pb2, graph_pb2, node_def_pb2, op_def_pb2, tensor_pb2

_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_DATASETS = ("TensorDataset", "TensorSliceDataset")
_SAME_ELEMENTS = ("BatchDatasetV2", "OptionsDataset", "PrefetchDataset", "RepeatDataset", "TakeDataset")
_BRANCHING = ("If", "StatelessIf", "Case", "StatelessCase")  # the first input selects the branch
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


Tensor: TypeAlias = tuple[str, Scope]  # a tensor's name in a scope


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
        """Returns the node with a tensor as output, a call if a function returns it; None if there is none."""
        scope = scope or self.top
        while (head := tensor.partition(":")[0]) in scope.arguments and scope.parent is not None:
            tensor, scope = scope.arguments[head], scope.parent
        definition = scope.nodes.get(head)
        if definition is None:
            return None
        parts = tensor.split(":")
        index = int(parts[-1]) if parts[-1].isdigit() else 0
        function = self._library.get(definition.op)
        if function is not None and len(parts) > 2:  # a call by an op with the function's name names its output
            index = [output.name for output in function.signature.output_arg].index(parts[1])
        return Node(scope, definition, index)

    def operands(self, node: Node) -> list[Tensor]:
        """Returns the tensors that a node's output is computed from: of a call, the one that its function returns."""
        function = self._called(node.definition)
        if function is None:
            inputs = [node.inputs[node.output]] if node.op == "IdentityN" else node.inputs
            return [(name, node.scope) for name in inputs]
        child = self._child(node.scope, node.definition, function)
        outputs = function.signature.output_arg[node.output : node.output + 1]
        return [(function.ret[output.name], child) for output in outputs]

    def is_transparent(self, node: Node) -> bool:
        """Whether a node's output is its only operand: it is a call or an IdentityN."""
        return node.op == "IdentityN" or self._called(node.definition) is not None

    def walk(
        self, tensors: Iterable[str], scope: Scope | None = None, follow: Callable[[Node], list[Tensor]] | None = None
    ) -> Iterator[Node]:
        """Yields the nodes that tensors of a scope, by default the top-level graph, depend on.

        A node is yielded once for each name of its outputs. `follow` returns the tensors to go on with from a node; by
        default, its operands.
        """
        waiting: list[Tensor] = [(name, scope or self.top) for name in tensors]
        seen: set[Tensor] = set()
        while waiting:
            tensor = waiting.pop()
            if tensor not in seen and (node := self.node(*tensor)) is not None:
                yield node
                waiting += (follow or self.operands)(node)
            seen.add(tensor)

    def producer(self, tensor: str, scope: Scope, passing: Collection[str] = ()) -> Node | None:
        """Returns the node behind a tensor that is neither a call nor of one of the ops `passing`."""
        node = self.node(tensor, scope)
        while node is not None and (node.op in passing or self.is_transparent(node)):
            node = next((self.node(*operand) for operand in self.operands(node)), None)
        return node

    def constant(self, tensor: str, scope: Scope) -> tensor_pb2.TensorProto | None:
        """Returns the TensorProto of a constant tensor, or None for a computed one."""
        node = self.producer(tensor, scope, ("Identity",))
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
        node = self.producer(dataset, scope, _SAME_ELEMENTS)
        is_known = node is not None and node.scope is scope and node.op in _DATASETS and len(node.inputs) == count
        return node.inputs if node is not None and is_known else [dataset] * count


def nodes_of(graph_def: graph_pb2.GraphDef) -> Iterator[node_def_pb2.NodeDef]:
    """Yields the nodes of a graph and of the functions in its library."""
    yield from graph_def.node
    for function in graph_def.library.function:
        yield from function.node_def
