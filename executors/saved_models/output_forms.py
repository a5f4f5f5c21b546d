"""Finds the outputs of a signature that are forms of one tensor, as logits, probabilities and a reshaped copy are.

    tensors, root = forms_in(graph, "StatefulPartitionedCall:0")
    root  # "serve:dense/BiasAdd:0": the tensor that all forms are computed from
    tensors  # ("serve:probabilities:0", "serve:dense/BiasAdd:0")

A tensor's name is "FUNCTION:NODE:OUTPUT", with the function's name in the Python code.
"""

from __future__ import annotations

import re

from .graph import Graph, Node, Scope

_SAME_VALUES = (
    *("Identity", "Cast", "StopGradient", "PreventGradient", "CheckNumerics", "EnsureShape"),
    *("Reshape", "Squeeze", "ExpandDims"),
)
FORMS = (*_SAME_VALUES, "Sigmoid", "Softmax", "LogSoftmax")  # the last ones from logits to probabilities
_LIMITS = ("Maximum", "Minimum", "ClipByValue")  # if all inputs but one are constants
_JOINS = ("ConcatV2", "Pack")
_CONSTANTS = ("Const", "ZerosLike", "OnesLike", "Fill")
_SAVED_NAME = re.compile(r"__inference_(.*)_\d+")  # of a Python function in a SavedModel


def forms_in(graph: Graph, tensor: str, scope: Scope | None = None) -> tuple[tuple[str, ...], str]:
    """Returns the names of the tensors that a tensor is a form of, itself first, and that of their root."""
    hops = list(graph.hops(tensor, scope))
    if not hops:
        return (), ""
    names = tuple(_name(hop) for hop in hops)
    parts = [forms_in(graph, operand, scope) for operand, scope in _operands(graph, hops[-1])]
    roots = {root for _, root in parts}
    if len(roots) != 1:
        return names, names[-1]
    return (*names, *(name for part, _ in parts for name in part)), roots.pop()


def sources_of(graph: Graph, tensor: str) -> frozenset[str]:
    """Returns the names of the tensors that a tensor of the top-level graph is computed from, itself included."""
    names: set[str] = set()
    seen: set[tuple[int, str]] = set()
    waiting = [(tensor, graph.top)]
    while waiting:
        hops = list(graph.hops(*waiting.pop()))
        names.update(map(_name, hops))
        for node in hops[-1:]:
            if (key := (id(node.scope), str(node.definition.name))) not in seen:
                seen.add(key)
                waiting += [(operand, node.scope) for operand in node.inputs]
    return frozenset(names)


def _operands(graph: Graph, node: Node) -> list[tuple[str, Scope]]:
    """Returns the inputs of which a node is a form, with their scope; [] for a node that computes something else."""
    inputs: list[str] = []
    if node.op in FORMS:
        inputs = node.inputs[:1]
    elif node.op == "IdentityN":
        inputs = [node.inputs[node.output]]
    elif node.op in _LIMITS:
        variable = [name for name in node.inputs if graph.constant(name, node.scope) is None]
        inputs = variable if len(variable) == 1 else []
    elif node.op in _JOINS:
        return _joined(graph, node)
    return [(name, node.scope) for name in inputs]


def _joined(graph: Graph, node: Node) -> list[tuple[str, Scope]]:
    """Returns what a tensor is joined from: p, if it is [1 - p, p]."""
    parts = node.inputs[:-1] if node.op == "ConcatV2" else node.inputs
    made = {part: graph.node(part, node.scope) for part in parts}
    joined = [(part, source) for part, source in made.items() if source is None or source.op not in _CONSTANTS]
    return [
        (source.inputs[1], source.scope) if source and _is_complement(graph, source) else (part, node.scope)
        for part, source in joined
    ]


def _is_complement(graph: Graph, node: Node) -> bool:
    return node.op == "Sub" and graph.constant(node.inputs[0], node.scope) is not None


def _name(node: Node) -> str:
    function = node.scope.function.signature.name if node.scope.function else ""
    saved = _SAVED_NAME.fullmatch(function)
    return f"{saved[1] if saved else function}:{node.definition.name}:{node.output}"
