"""Leaves rows out of a SQLite store that ML Metadata cannot read: it would end the process, or refuse the whole store.

SQLite stores a value of any type in any column, and does not check references between tables. A row is odd if a number
is none or too large, a text is not UTF-8, a time is not one, a property has no value, or a referenced row is missing,
as after somebody deleted an artifact with `sqlite3`.

    with readable_copy("root/metadata.sqlite") as path:  # the path itself, unless there are odd rows
        MetadataStore(config_of(path))
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from urllib.parse import quote

from absl import logging

# {table: {column: table of the referenced row}}; a table comes after those that it references.
_REFERENCES = {
    "Context": {"type_id": "Type"},
    "Execution": {"type_id": "Type"},
    "Artifact": {"type_id": "Type"},
    "Event": {"artifact_id": "Artifact", "execution_id": "Execution"},
    "EventPath": {"event_id": "Event"},
    "ContextProperty": {"context_id": "Context"},
    "ExecutionProperty": {"execution_id": "Execution"},
    "ArtifactProperty": {"artifact_id": "Artifact"},
    "Association": {"context_id": "Context", "execution_id": "Execution"},
    "Attribution": {"context_id": "Context", "artifact_id": "Artifact"},
}
# ML Metadata fails on an execution without a context, and on a step of a path that is neither an index nor a key.
_INCOMPLETE = {
    "Execution": "id NOT IN (SELECT execution_id FROM Association)",
    "EventPath": "iif(is_index_step, step_index, step_key) IS NULL",
}
_LATEST = 253_402_300_799_999  # milliseconds at the end of the year 9999
_INT32, _INT64 = "-2147483648 AND 2147483647", "-9223372036854775808 AND 9223372036854775807"
_LIMITS = {"INTEGER": "1 AND 2147483647", "TINYINT(1)": "0 AND 1", "BOOLEAN": "0 AND 1"}  # INTEGER: the rows' ids
_LISTED = 5  # rows in a message


@contextlib.contextmanager
def readable_copy(path: str) -> Iterator[str]:
    """Yields a path of a store without odd rows: the store itself, or a temporary copy; logs what is left out."""
    with contextlib.closing(sqlite3.connect(f"file:{quote(os.path.abspath(path))}?mode=ro", uri=True)) as store:
        if not any(_odd_rows(store).values()):
            yield path
            return
        with tempfile.TemporaryDirectory(prefix="generic-trainer-") as folder:
            copy = os.path.join(folder, "metadata.sqlite")
            with contextlib.closing(sqlite3.connect(copy)) as target:
                store.backup(target)
                _delete_odd_rows(target, path)
            yield copy


def _delete_odd_rows(store: sqlite3.Connection, shown: str) -> None:
    while any((found := _odd_rows(store)).values()):  # rows that refer to deleted ones are odd, too
        for table, rows in found.items():
            store.executemany(f"DELETE FROM {table} WHERE rowid = ?", [(row,) for row in rows])  # noqa: S608  # nosec B608
        listed = "; ".join(f"{table} {_listed(rows)}" for table, rows in found.items() if rows)
        logging.warning("%s: skipped rows that ML Metadata cannot read: %s.", shown, listed)
    store.commit()


def _listed(rows: list[int]) -> str:
    return ", ".join(map(str, rows[:_LISTED])) + (", …" if len(rows) > _LISTED else "")


def _odd_rows(store: sqlite3.Connection) -> dict[str, list[int]]:
    store.create_function("is_utf8", 1, _is_utf8, deterministic=True)
    queries = {
        table: f"SELECT rowid FROM {table} WHERE {' OR '.join(_conditions(store, table))}"  # noqa: S608  # nosec B608
        for table in _REFERENCES
    }
    return {table: [row for (row,) in store.execute(query)] for table, query in queries.items()}


def _conditions(store: sqlite3.Connection, table: str) -> Iterator[str]:
    """Yields SQL conditions for odd rows of a table; names are ML Metadata's own."""
    columns = {name: kind for _, name, kind, *_ in store.execute(f"PRAGMA table_info({table})")}
    for name, kind in columns.items():
        if name.endswith("_since_epoch"):
            yield f"{name} IS NOT NULL AND (typeof({name}) != 'integer' OR {name} NOT BETWEEN 0 AND {_LATEST})"
        elif kind.startswith(("INT", "TINYINT", "BOOL")):
            limits = _LIMITS.get(kind, _INT64 if name == "int_value" else _INT32)
            yield f"{name} IS NOT NULL AND (typeof({name}) != 'integer' OR {name} NOT BETWEEN {limits})"
        elif kind.startswith(("TEXT", "VARCHAR")):
            yield f"{name} IS NOT NULL AND (typeof({name}) != 'text' OR NOT is_utf8(CAST({name} AS BLOB)))"
        elif kind == "DOUBLE":
            yield f"typeof({name}) NOT IN ('real', 'integer', 'null')"
    for name, referenced in _REFERENCES[table].items():
        yield f"{name} NOT IN (SELECT id FROM {referenced})"  # noqa: S608  # nosec B608
    if values := [name for name in columns if name.endswith("_value")]:
        yield f"coalesce({', '.join(values)}) IS NULL"
    if table in _INCOMPLETE:
        yield _INCOMPLETE[table]


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
