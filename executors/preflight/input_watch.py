"""Records which features a module's input pipeline parses, and whether it applies the Transform graph.

    with watching(tell):
        run_fn(fn_args)       # tell({"parsed": {"fare": "FLOAT", "company": "BYTES"}, "transforms": True})

Only calls made while a `tf.data` pipeline is built count: serving functions parse raw examples in any case.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Concatenate, ParamSpec, TypedDict, TypeVar

from ..compat.tensorflow import feature_spec_reader, pipeline_builders
from ..compat.tensorflow_transform import graph_appliers
from ..keras.interception import replaced

P = ParamSpec("P")
R = TypeVar("R")
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
def watching(tell: Callable[[Reads], None]) -> Iterator[None]:
    """Records the input pipelines that are built in the block.

    Args:
      tell: Called with all records so far each time one is added.
    """
    seen = _Seen(tell)
    with contextlib.ExitStack() as stack:
        for builder in pipeline_builders():
            stack.enter_context(replaced(*builder, seen.build))
        stack.enter_context(replaced(*feature_spec_reader(), seen.parse))
        for applier in graph_appliers():
            stack.enter_context(replaced(*applier, seen.transform))
        yield


class _Seen:
    def __init__(self, tell: Callable[[Reads], None]) -> None:
        self._tell = tell
        self._depth = 0  # of nested calls that build a pipeline
        self._parsed: dict[str, str] = {}
        self._transforms = False

    def build(self, original: Callable[P, R], *args: P.args, **options: P.kwargs) -> R:
        """Replaces a function that builds a part of a `tf.data` pipeline."""
        self._depth += 1
        try:
            return original(*args, **options)
        finally:
            self._depth -= 1

    def parse(
        self, original: Callable[Concatenate[object, P], R], features: object, *args: P.args, **options: P.kwargs
    ) -> R:
        """Replaces TensorFlow's reader of feature specs: records the parsed features."""
        if self._depth and isinstance(features, Mapping):
            self._parsed.update(kind for name, feature in features.items() for kind in _keys(name, feature))
            self._say()
        return original(features, *args, **options)

    def transform(self, original: Callable[P, R], *args: P.args, **options: P.kwargs) -> R:
        """Replaces a function that applies the Transform graph."""
        if self._depth and not self._transforms:
            self._transforms = True
            self._say()
        return original(*args, **options)

    def _say(self) -> None:
        self._tell({"parsed": self._parsed, "transforms": self._transforms})


def _keys(name: str, feature: object) -> Iterator[tuple[str, str]]:
    """Yields the features that an entry of a feature spec reads, with their types."""
    kind = _KINDS.get(getattr(getattr(feature, "dtype", None), "name", ""), "")
    if indices := getattr(feature, "index_key", None):
        for index in [indices] if isinstance(indices, str) else indices:
            yield index, "INT"
    yield getattr(feature, "value_key", None) or name, kind
