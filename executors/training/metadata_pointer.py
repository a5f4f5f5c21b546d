"""Where a pipeline keeps its metadata, as noted in its root by the Trainer's driver.

A user's own pipeline may have its ML Metadata store anywhere, and several pipelines may share one, so that a root alone
does not lead to its runs. The note does; it has no password.

    note(Noted(url_of(connection_config), "taxi", root))
    noted(root)                           # [Noted("/home/me/metadata/store.db", "taxi", root)]
"""

from __future__ import annotations

import dataclasses
import json
import os
from typing import TYPE_CHECKING
from urllib.parse import quote

from ..runtime.files import file_io

if TYPE_CHECKING:
    from ml_metadata.proto import metadata_store_pb2

FILE_NAME = ".generic_trainer_metadata.json"


@dataclasses.dataclass(frozen=True)
class Noted:
    """The store of a pipeline.

    Attributes:
      metadata: A SQLite file or `mysql://user@host:port/database`.
      pipeline: The pipeline's name in it.
      root: The pipeline's root, where this is noted.
    """

    metadata: str
    pipeline: str
    root: str


def url_of(config: metadata_store_pb2.ConnectionConfig) -> str:
    """Returns a connection's SQLite file or `mysql://user@host:port/database`; "" for any other.

    Args:
      config: A `ConnectionConfig` of ML Metadata.
    """
    if config.HasField("sqlite") and config.sqlite.filename_uri:
        return os.path.abspath(str(config.sqlite.filename_uri))
    if config.HasField("mysql") and config.mysql.host and config.mysql.database:
        mysql = config.mysql
        user = f"{quote(mysql.user, safe='')}@" if mysql.user else ""
        return f"mysql://{user}{mysql.host}:{mysql.port or 3306}/{mysql.database}"
    return ""


def note(store: Noted) -> None:
    """Adds a store to those that are noted in its pipeline's root.

    Raises:
      OSError: When the root cannot be written.
    """
    known = noted(store.root)
    if store not in known:
        stores = [{"metadata": one.metadata, "pipeline": one.pipeline} for one in (*known, store)]
        file_io.write_text(os.path.join(store.root, FILE_NAME), json.dumps({"stores": stores}, indent=2) + "\n")


def noted(root: str) -> list[Noted]:
    """Returns the stores that are noted in a folder; [] when there is no note, or one that cannot be read."""
    path = os.path.join(root, FILE_NAME)
    if not file_io.exists(path):
        return []
    try:
        stores = json.loads(file_io.read_text(path))["stores"]
        return [Noted(str(store["metadata"]), str(store["pipeline"]), root) for store in stores]
    except (OSError, ValueError, KeyError, TypeError):
        return []
