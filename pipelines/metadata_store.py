"""How to reach ML Metadata: a SQLite file, or a MySQL database by URL."""

from __future__ import annotations

import os
from urllib.parse import unquote, urlsplit

from ml_metadata.proto import metadata_store_pb2

from ..executors import file_io
from ..executors.errors import InputError


def connection_config(url: str) -> metadata_store_pb2.ConnectionConfig:
    """Returns ML Metadata's connection for a SQLite file or a `mysql://user:password@host:port/database`.

    Raises:
      InputError: When the URL has another scheme, or no database.
    """
    if not file_io.is_remote(url):
        sqlite = metadata_store_pb2.SqliteMetadataSourceConfig(filename_uri=os.path.abspath(url))
        sqlite.connection_mode = metadata_store_pb2.SqliteMetadataSourceConfig.READWRITE_OPENCREATE
        return metadata_store_pb2.ConnectionConfig(sqlite=sqlite)
    parts = urlsplit(url)
    database = parts.path.strip("/")
    if parts.scheme != "mysql" or not parts.hostname or not database:
        shown = url.replace(f":{parts.password}@", ":***@") if parts.password else url
        raise InputError(f"--metadata {shown}: give a file, or mysql://user:password@host:port/database.")
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    mysql = metadata_store_pb2.MySQLDatabaseConfig(
        host=parts.hostname, port=parts.port or 3306, database=database, user=user, password=password
    )
    return metadata_store_pb2.ConnectionConfig(mysql=mysql)


def shown(url: str) -> str:
    """Returns where the metadata lies, for people: without user and password."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if file_io.is_remote(url) else url
