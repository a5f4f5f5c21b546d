"""Records how a module's input pipeline reads its examples: which features it parses, and whether it transforms them.

    with watching(tell):
        run_fn(fn_args)       # tell({"parsed": {"fare": "FLOAT", "company": "BYTES"}, "transforms": True})

Only what happens while a `tf.data` pipeline is built counts. Serving functions parse raw examples whatever the module
is trained on.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..keras.interception import replaced

_KINDS = {"string": "BYTES", "int64": "INT", "float32": "FLOAT"}
_TRANSFORMS = (
    ("tensorflow_transform.saved.saved_transform_io_v2", "SavedModelLoader", "apply_transform_model"),
    ("tensorflow_transform.output_wrapper", "TFTransformOutput", "_transform_raw_features_compat_v1"),
)


@contextlib.contextmanager
def watching(tell: Callable[[dict[str, Any]], None]) -> Iterator[None]:
    """Watches the input pipelines that are built in the block.

    Args:
      tell: Called with what is known so far, each time that something is added.
    """
    from tensorflow.python.data.experimental.ops import parsing_ops
    from tensorflow.python.data.ops import structured_function
    from tensorflow.python.ops import parsing_config

    seen = _Seen(tell)
    with contextlib.ExitStack() as stack:
        # Of all ways to parse, in and out of graphs, these functions are the ones that each of them goes through.
        stack.enter_context(replaced(structured_function.StructuredFunctionWrapper, "__init__", seen.build))
        stack.enter_context(replaced(parsing_ops._ParseExampleDataset, "__init__", seen.build))
        stack.enter_context(replaced(parsing_config._ParseOpParams, "from_features", seen.parse))
        for module, owner, name in _TRANSFORMS:
            if (imported := sys.modules.get(module)) is not None:
                stack.enter_context(replaced(getattr(imported, owner), name, seen.transform))
        yield


class _Seen:
    def __init__(self, tell: Callable[[dict[str, Any]], None]) -> None:
        self._tell = tell
        self._depth = 0  # of pipelines that are being built
        self._parsed: dict[str, str] = {}
        self._transforms = False

    def build(self, original: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Is called in place of what builds a part of a `tf.data` pipeline."""
        self._depth += 1
        try:
            return original(*args, **options)
        finally:
            self._depth -= 1

    def parse(self, original: Callable[..., Any], features: Any, *args: Any, **options: Any) -> Any:
        """Is called in place of what reads a feature spec."""
        if self._depth and isinstance(features, Mapping):
            self._parsed.update(kind for name, feature in features.items() for kind in _keys(name, feature))
            self._say()
        return original(features, *args, **options)

    def transform(self, original: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Is called in place of what applies the Transform graph."""
        if self._depth and not self._transforms:
            self._transforms = True
            self._say()
        return original(*args, **options)

    def _say(self) -> None:
        self._tell({"parsed": self._parsed, "transforms": self._transforms})


def _keys(name: str, feature: Any) -> Iterator[tuple[str, str]]:
    """Yields the features that an entry of a feature spec reads, with their types."""
    kind = _KINDS.get(getattr(getattr(feature, "dtype", None), "name", ""), "")
    if indices := getattr(feature, "index_key", None):
        for index in [indices] if isinstance(indices, str) else indices:
            yield index, "INT"
    yield getattr(feature, "value_key", None) or name, kind
