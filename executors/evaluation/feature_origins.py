"""Finds the raw features that each transformed feature is computed from, by following the Transform graph."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ..compat.tensorflow import decode_structure
from ..saved_models.graph import PLACEHOLDER, Graph
from ..saved_models.signatures import TRANSFORM_FN, meta_graph_of

if TYPE_CHECKING:
    import tensorflow as tf
    from tensorflow.core.protobuf import meta_graph_pb2

    from .plan import EvaluationPlan

_V1_SIGNATURE = "transform_signature"
_V2_SIGNATURE = "serving_default"


def origins_of(transform_fn: str) -> dict[str, frozenset[str]]:
    """Returns {transformed feature: raw features it depends on}; {} if the graph's inputs cannot be identified.

    Args:
      transform_fn: The SavedModel in a Transform graph's folder.

    Raises:
      OSError, ValueError: If it cannot be read.
    """
    meta_graph = meta_graph_of(transform_fn)
    graph = Graph(meta_graph.graph_def)
    signatures = meta_graph.signature_def
    definition = signatures[_V1_SIGNATURE if _V1_SIGNATURE in signatures else _V2_SIGNATURE]
    features = _features_by_input(meta_graph, definition.inputs)
    if not features:
        return {}
    placeholders = {
        tensor.partition(":")[0]: features[key]
        for key, info in definition.inputs.items()
        if key in features
        for tensor in _tensors(info)
    }
    return {
        key: frozenset(
            placeholders[node.definition.name]
            for node in graph.walk(_tensors(info))
            if node.op == PLACEHOLDER and node.definition.name in placeholders
        )
        for key, info in definition.outputs.items()
    }


def label_sources(plan: EvaluationPlan, transform_graph: str | None) -> list[str]:
    """Returns the raw features that a plan's transformed labels are computed from; [] without a Transform graph."""
    labels = [one.label for one in plan.outputs if one.label_is_transformed]
    if not labels or not transform_graph:
        return []
    origins = origins_of(os.path.join(transform_graph, TRANSFORM_FN))
    return sorted({raw for label in labels for raw in origins.get(label, ())})


def _tensors(info: meta_graph_pb2.TensorInfo) -> Iterator[str]:
    if info.name:
        yield info.name
    elif info.coo_sparse.values_tensor_name:
        yield info.coo_sparse.values_tensor_name
        yield info.coo_sparse.indices_tensor_name
        yield info.coo_sparse.dense_shape_tensor_name


def _features_by_input(
    meta_graph: meta_graph_pb2.MetaGraphDef, inputs: Mapping[str, meta_graph_pb2.TensorInfo]
) -> Mapping[str, str]:
    """Returns {the signature's input: feature}; {} if unknown.

    TFT on TensorFlow 2 traces a function of one dict, whose tensors become arguments named `inputs`, `inputs_1`, … The
    SavedModel keeps the dict as the function's canonicalized signature; arguments are sorted by the features' names.
    """
    bodies = {one.signature.name: one.signature.input_arg for one in meta_graph.graph_def.library.function}
    for name, function in meta_graph.object_graph_def.concrete_functions.items():
        try:
            arguments, _ = decode_structure(function.canonicalized_input_signature)
        except (TypeError, ValueError, AttributeError):
            continue
        if len(arguments) != 1 or not isinstance(arguments[0], dict):
            continue
        flat = [(key, dtype) for key in sorted(arguments[0]) for dtype in _components(arguments[0][key])]
        named = {one.name: feature for one, feature in zip(bodies.get(name, ()), flat, strict=False)}
        if all(key in named and named[key][1] == info.dtype for key, info in inputs.items()):
            return {key: feature for key, (feature, _) in named.items()}
    is_v1 = _V1_SIGNATURE in meta_graph.signature_def
    return {name: name for name in inputs} if is_v1 else {}


def _components(spec: tf.TypeSpec) -> list[int]:
    """Returns the DataType enums of a feature's tensors: one, or the components of a sparse or ragged tensor."""
    import tensorflow as tf

    return [one.dtype.as_datatype_enum for one in tf.nest.flatten(spec, expand_composites=True)]
