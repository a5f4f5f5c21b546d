"""Finds what the outputs of a signature are computed from.

Outputs may be forms of one tensor, as logits, probabilities and a reshaped copy are:

    tensors, root = forms_in(graph, "StatefulPartitionedCall:0")
    root  # "serve:dense/BiasAdd:0": the tensor that all forms are computed from
    tensors  # ("serve:probabilities:0", "serve:dense/BiasAdd:0")

A tensor's name is "FUNCTION:NODE:OUTPUT", with the function's name in the Python code.
"""

from __future__ import annotations

import re

from .graph import Graph, Node, Scope, Tensor

_SAME_VALUES = (
    *("Identity", "Cast", "StopGradient", "PreventGradient", "CheckNumerics", "EnsureShape"),
    *("Reshape", "Squeeze", "ExpandDims"),
)
FORMS = (*_SAME_VALUES, "Sigmoid", "Softmax", "LogSoftmax")  # the last ones from logits to probabilities
# Ops that pass on or rearrange values of their first input; of `Split`, the first one is the dimension.
_REARRANGING = (
    *(*_SAME_VALUES, "PlaceholderWithDefault", "Transpose"),
    *("Slice", "StridedSlice", "Split", "SplitV", "Unpack", "GatherV2"),
)
_LIMITS = ("Maximum", "Minimum", "ClipByValue")  # if all inputs but one are constants
_JOINS = ("ConcatV2", "Pack")
_CONSTANTS = ("Const", "ZerosLike", "OnesLike", "Fill")
_SAVED_NAME = re.compile(r"__inference_(.*)_\d+")  # of a Python function in a SavedModel


def forms_in(graph: Graph, tensor: str, scope: Scope | None = None) -> tuple[tuple[str, ...], str]:
    """Returns the names of the tensors that a tensor is a form of, itself first, and that of their root."""
    node = graph.node(tensor, scope)
    if node is None:
        return (), ""
    parts = [forms_in(graph, *operand) for operand in _same(graph, node)]
    roots = {root for _, root in parts}
    if len(roots) != 1:
        return (_name(node),), _name(node)
    return (_name(node), *(name for part, _ in parts for name in part)), roots.pop()


def op_of(graph: Graph, tensor: str) -> str:
    """Returns the op that computes the values of a tensor, not one that only rearranges them; "" if several do."""
    nodes = graph.walk([tensor], follow=lambda node: _rearranged(graph, node))
    ops = {node.op for node in nodes if not _rearranged(graph, node)}
    return ops.pop() if len(ops) == 1 else ""


def sources_of(graph: Graph, tensor: str) -> frozenset[str]:
    """Returns the names of the tensors that a tensor of the top-level graph is computed from, itself included."""
    return frozenset(map(_name, graph.walk([tensor])))


def _rearranged(graph: Graph, node: Node) -> list[Tensor]:
    """Returns the tensors of which a node rearranges values; [] for a node that computes something else."""
    operands = graph.operands(node)
    if node.op in _JOINS:
        return _parts(graph, node)
    if node.op in _REARRANGING or graph.is_transparent(node):
        return operands[1:2] if node.op == "Split" else operands[:1]
    return operands[1:] if _is_complement(graph, node) else []


def _same(graph: Graph, node: Node) -> list[Tensor]:
    """Returns the tensors of which a node is a form; [] for a node that computes something else."""
    operands = graph.operands(node)
    if node.op in FORMS or graph.is_transparent(node):
        return operands[:1]
    if node.op in _LIMITS:
        variable = [operand for operand in operands if graph.constant(*operand) is None]
        return variable if len(variable) == 1 else []
    return _joined(graph, node) if node.op in _JOINS else []


def _joined(graph: Graph, node: Node) -> list[Tensor]:
    """Returns what a tensor is joined from: p, if it is [1 - p, p]."""
    made = {part: graph.producer(*part) for part in _parts(graph, node)}
    return [
        graph.operands(source)[1] if source and _is_complement(graph, source) else part
        for part, source in made.items()
        if source is None or source.op not in _CONSTANTS
    ]


def _parts(graph: Graph, node: Node) -> list[Tensor]:
    operands = graph.operands(node)
    return operands[:-1] if node.op == "ConcatV2" else operands  # the last one is the dimension


def _is_complement(graph: Graph, node: Node) -> bool:
    """Whether a node is 1 - p."""
    return node.op == "Sub" and graph.constant(*graph.operands(node)[0]) is not None


def _name(node: Node) -> str:
    function = node.scope.function.signature.name if node.scope.function else ""
    saved = _SAVED_NAME.fullmatch(function)
    return f"{saved[1] if saved else function}:{node.definition.name}:{node.output}"
