"""Records which features a module's input pipeline parses, and whether it applies the Transform graph.

    with watching(report):
        run_fn(fn_args)       # report({"parsed": {"fare": "FLOAT", "company": "BYTES"}, "transforms": True})

Only calls made while a `tf.data` pipeline is built count: serving functions parse raw examples in any case.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TypedDict

from ..compat.tensorflow import feature_specs_reported, pipelines_built_in
from ..compat.tensorflow_transform import transform_graphs_reported

_KINDS = {"string": "BYTES", "int64": "INT", "float32": "FLOAT"}


class Reads(TypedDict, total=False):
    """How an input pipeline reads its examples, as JSON values; empty if nothing was recorded.

    Attributes:
      parsed: The features that it parses, with their types: "BYTES", "FLOAT" or "INT"; "" for other types.
      transforms: Whether it applies the Transform graph.
    """

    parsed: dict[str, str]
    transforms: bool


@contextlib.contextmanager
def watching(report: Callable[[Reads], None]) -> Iterator[None]:
    """Records the input pipelines that are built in the block.

    Args:
      report: Called with all records so far each time one is added.
    """
    records = _Records(report)
    with (
        pipelines_built_in(records.building),
        feature_specs_reported(records.add_features),
        transform_graphs_reported(records.add_transform),
    ):
        yield


class _Records:
    def __init__(self, report: Callable[[Reads], None]) -> None:
        self._report = report
        self._depth = 0  # of nested calls that build a pipeline
        self._reads: Reads = {"parsed": {}, "transforms": False}

    @contextlib.contextmanager
    def building(self) -> Iterator[None]:
        """Marks a block that builds a part of a pipeline."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def add_features(self, features: object) -> None:
        """Records the features of a feature spec."""
        if self._depth and isinstance(features, Mapping):
            self._reads["parsed"].update(kind for name, feature in features.items() for kind in _keys(name, feature))
            self._report(self._reads)

    def add_transform(self) -> None:
        """Records that the Transform graph is applied."""
        if self._depth and not self._reads["transforms"]:
            self._reads["transforms"] = True
            self._report(self._reads)


def _keys(name: str, feature: object) -> Iterator[tuple[str, str]]:
    """Yields the features that an entry of a feature spec reads, with their types."""
    kind = _KINDS.get(getattr(getattr(feature, "dtype", None), "name", ""), "")
    if indices := getattr(feature, "index_key", None):
        for index in [indices] if isinstance(indices, str) else indices:
            yield index, "INT"
    yield getattr(feature, "value_key", None) or name, kind
