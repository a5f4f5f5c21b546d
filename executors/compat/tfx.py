"""Private names of TFX 1.15 to 1.21."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfx.orchestration import metadata


def connection_config_of(metadata_handle: metadata.Metadata) -> metadata.ConnectionConfigType:
    """Returns the ConnectionConfig of the metadata handle that a driver receives.

    TFX 1.21 has a public property; 1.15 and 1.16 only have the private attribute.
    """
    public = getattr(metadata_handle, "connection_config", None)
    return public or metadata_handle._connection_config
