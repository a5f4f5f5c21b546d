"""Private names of ML Metadata 1.15 to 1.21."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ml_metadata as mlmd


def store_call() -> tuple[type[mlmd.MetadataStore], str]:
    """Returns the hook point that every request to a MetadataStore passes.

    Its public methods are many, and each of them retries by itself only what the server calls aborted.
    """
    import ml_metadata as mlmd

    return mlmd.MetadataStore, "_call_method"


def reconnect(store: mlmd.MetadataStore) -> None:
    """Connects a MetadataStore anew, with no transaction open.

    The store's methods cannot: it keeps one connection for its lifetime, and crashes the process when that is used
    after the server has gone.

    Raises:
      RuntimeError: When it cannot be connected.
    """
    from ml_metadata.metadata_store.pywrap.metadata_store_extension import metadata_store as serialized
    from ml_metadata.proto import metadata_store_pb2

    store._metadata_store = None  # which ends its transaction
    migration = metadata_store_pb2.MigrationOptions().SerializeToString()
    store._metadata_store = serialized.CreateMetadataStore(store._config.SerializeToString(), migration)
