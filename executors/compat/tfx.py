"""Private names of TFX 1.15 to 1.21."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from .patching import replaced

if TYPE_CHECKING:
    from collections.abc import Callable

    from ml_metadata.proto import metadata_store_pb2
    from tfx import types
    from tfx.orchestration import metadata


def connection_config_of(metadata_handle: metadata.Metadata) -> metadata.ConnectionConfigType:
    """Returns the ConnectionConfig of the metadata handle that a driver receives.

    TFX 1.21 has a public property; 1.15 and 1.16 only have the private attribute.
    """
    public = getattr(metadata_handle, "connection_config", None)
    return public or metadata_handle._connection_config


def _without_place(artifact: types.Artifact) -> types.Artifact:
    copied = copy.deepcopy(artifact)
    for field in ("uri", "create_time_since_epoch", "last_update_time_since_epoch"):
        copied.mlmd_artifact.ClearField(field)
    return copied


@contextlib.contextmanager
def contents_in_cache_keys(fingerprints: Mapping[str, str]) -> Iterator[None]:
    """Leaves paths out of the keys of TFX's cache in the block, if a fingerprint of their content is in the key.

    A key contains all execution properties as they are written. A component cannot leave one out, because its executor
    reads it. Of input artifacts, a key also contains paths and times; their ids suffice.

    Args:
      fingerprints: {execution property with a path: execution property with the fingerprint of its content}.
    """
    from tfx.orchestration.portable import cache_utils

    def get_cache_context(
        original: Callable[..., metadata_store_pb2.Context], *arguments: object, **named: Mapping[str, object]
    ) -> metadata_store_pb2.Context:
        known = named.get("parameters") or {}
        left_out = [path for path, fingerprint in fingerprints.items() if known.get(fingerprint)]
        named["parameters"] = {name: value for name, value in known.items() if name not in left_out}
        inputs = cast("Mapping[str, Sequence[types.Artifact]]", named.get("input_artifacts") or {})
        named["input_artifacts"] = {name: [*map(_without_place, artifacts)] for name, artifacts in inputs.items()}
        return original(*arguments, **named)

    with replaced(cache_utils, "get_cache_context", get_cache_context):
        yield
