"""Finds missing or empty files of a SavedModel.

TensorFlow's errors on loading such a model name a tensor, an operation or a byte offset, but seldom the file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..runtime.files import file_io

if TYPE_CHECKING:
    from tensorflow.core.protobuf import meta_graph_pb2

_SHARD = re.compile(r"variables\.data-\d{5}-of-(\d{5})$")


def missing_files(model: str, meta_graph: meta_graph_pb2.MetaGraphDef) -> list[str]:
    """Returns the problems with a SavedModel's files, such as "variables/variables.index is missing".

    Args:
      model: The folder with `saved_model.pb`.
      meta_graph: The model's MetaGraphDef.
    """
    return [*_missing_variables(model, meta_graph), *_missing_assets(model, meta_graph)]


def _missing_variables(model: str, meta_graph: meta_graph_pb2.MetaGraphDef) -> Iterator[str]:
    folder = os.path.join(model, "variables")
    names = file_io.listdir(folder) if file_io.isdir(folder) else []
    nodes = meta_graph.object_graph_def.nodes
    if not names and not any(node.WhichOneof("kind") == "variable" for node in nodes):
        return  # a model without variables
    if "variables.index" not in names:
        yield "variables/variables.index is missing"
    shards = [match for name in names if (match := _SHARD.match(name))]
    wanted = int(shards[0][1]) if shards else 1
    if len(shards) < wanted:
        yield f"{wanted - len(shards)} of {wanted} files variables/variables.data-… are missing"
    for name in names:
        if not file_io.size_of(os.path.join(folder, name)):
            yield f"variables/{name} is empty (0 bytes)"


def _missing_assets(model: str, meta_graph: meta_graph_pb2.MetaGraphDef) -> Iterator[str]:
    for asset in meta_graph.asset_file_def:
        if not file_io.exists(os.path.join(model, "assets", asset.filename)):
            yield f"assets/{asset.filename} is missing"
