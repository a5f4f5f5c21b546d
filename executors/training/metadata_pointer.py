"""A file in a pipeline's root with the location of its metadata store, written by the Trainer's driver.

A pipeline's ML Metadata store can be anywhere, and several pipelines can share one store, so the root alone does not
identify the pipeline's runs. The file does; it contains no password.

    add_store(PipelineStore(url_of(connection_config), "taxi", root))
    read_stores(root)                     # [PipelineStore("/home/me/metadata/store.db", "taxi", root)]
"""

from __future__ import annotations

import dataclasses
import json
import os
from typing import TYPE_CHECKING
from urllib.parse import quote

from ..runtime.files import file_io
from ..runtime.files.json_data import read_or_skip

if TYPE_CHECKING:
    from ml_metadata.proto import metadata_store_pb2

FILE_NAME = ".generic_trainer_metadata.json"


@dataclasses.dataclass(frozen=True)
class PipelineStore:
    """The metadata store of a pipeline.

    Attributes:
      metadata: Path of a SQLite file, or `mysql://user@host:port/database`.
      pipeline: Name of the pipeline in the store.
      root: Root folder of the pipeline, which contains the pointer file.
    """

    metadata: str
    pipeline: str
    root: str = ""


@dataclasses.dataclass(frozen=True)
class _Pointer:
    stores: list[PipelineStore]


def url_of(config: metadata_store_pb2.ConnectionConfig) -> str:
    """Returns the path of a connection's SQLite file or `mysql://user@host:port/database`; "" for other databases.

    Args:
      config: Connection configuration of ML Metadata.
    """
    if config.HasField("sqlite") and config.sqlite.filename_uri:
        return os.path.abspath(str(config.sqlite.filename_uri))
    if config.HasField("mysql") and config.mysql.host and config.mysql.database:
        mysql = config.mysql
        user = f"{quote(mysql.user, safe='')}@" if mysql.user else ""
        return f"mysql://{user}{mysql.host}:{mysql.port or 3306}/{mysql.database}"
    return ""


def add_store(store: PipelineStore) -> None:
    """Adds a store to the pointer file in its pipeline's root, unless it is already there.

    Raises:
      OSError: If the root is not writable.
    """
    known = read_stores(store.root)
    if store not in known:
        stores = [{"metadata": one.metadata, "pipeline": one.pipeline} for one in (*known, store)]
        file_io.write_text(os.path.join(store.root, FILE_NAME), json.dumps({"stores": stores}, indent=2) + "\n")


def read_stores(root: str) -> list[PipelineStore]:
    """Returns the stores in a folder's pointer file; [] if there is none, or, with a warning, if the file is odd."""
    content = read_or_skip(os.path.join(root, FILE_NAME), _Pointer, "The location of ML Metadata")
    return [dataclasses.replace(store, root=root) for store in content.stores] if content else []
