"""Extracts from a graph's parsing ops which features they parse from serialized tf.Examples."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensorflow.core.framework import node_def_pb2, tensor_pb2

PARSERS = ("ParseExampleV2", "ParseExample", "ParseSingleExample")
# Ops that parse serialized records too, but of other kinds or with keys that are not constant inputs.
OTHER_PARSERS = ("ParseSequenceExampleV2", "ParseSequenceExample", "ParseSingleSequenceExample", "DecodeProtoV2")


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


def parsed_by(
    node: node_def_pb2.NodeDef, constant: Callable[[str], tensor_pb2.TensorProto | None]
) -> Iterator[ParsedFeature]:
    """Yields the features of a parsing op.

    Args:
      node: A NodeDef whose op is one of PARSERS.
      constant: Returns the TensorProto of a constant input, else None.
    """
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
