"""A row that ML Metadata cannot read is skipped and named; the other runs of the store are read."""

from __future__ import annotations

import logging
import pathlib
import shutil
import sqlite3
from typing import Any

import pytest

from generic_trainer.pipelines.history.lineage import lineage_of_run
from generic_trainer.pipelines.history.metadata_store import SQLITE
from generic_trainer.pipelines.history.odd_rows import readable_copy
from generic_trainer.pipelines.history.runs import find_runs

ODD = {
    "a deleted artifact": ("DELETE FROM Artifact WHERE id = (SELECT max(id) FROM Artifact)", "ArtifactProperty"),
    "a deleted execution": ("DELETE FROM Execution WHERE id = (SELECT max(id) FROM Execution)", "Association"),
    "a deleted context": ("DELETE FROM Context WHERE name = 'run-5'", "Association"),
    "a text as a time": ("UPDATE Execution SET create_time_since_epoch = 'odd' WHERE id = 1", "Execution 1"),
    "a time after 9999": (
        "UPDATE Execution SET create_time_since_epoch = 999999999999999 WHERE id = 1",
        "Execution 1",
    ),
    "an unknown type": ("UPDATE Artifact SET type_id = 999 WHERE id = 1", "Artifact 1"),
    "a state of 64 bits": ("UPDATE Execution SET last_known_state = 1000000000000 WHERE id = 1", "Execution 1"),
    "a name that is not UTF-8": ("UPDATE Execution SET name = CAST(x'FF' AS TEXT) WHERE id = 1", "Execution 1"),
    "bytes as a name": ("UPDATE ArtifactProperty SET name = x'00' WHERE rowid = 1", "ArtifactProperty 1"),
    "no value": ("UPDATE ArtifactProperty SET int_value = NULL WHERE rowid = 1", "ArtifactProperty 1"),
    "a text as a number": ("UPDATE ArtifactProperty SET double_value = 'odd' WHERE rowid = 1", "ArtifactProperty 1"),
    "a path without its key": ("UPDATE EventPath SET step_key = NULL WHERE rowid = 1", "EventPath 1"),
    "an unknown kind of event": ("UPDATE Event SET type = 1000000000000 WHERE id = 1", "Event 1"),
}


@pytest.mark.parametrize("case", ODD)
def test_an_odd_row_is_skipped_and_named(
    case: str, metadata: Any, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = tmp_path / SQLITE
    shutil.copy(metadata.root / SQLITE, store)
    statement, named = ODD[case]
    with sqlite3.connect(store) as connection:
        assert connection.execute(statement).rowcount == 1
    before = store.read_bytes()
    with caplog.at_level(logging.WARNING, logger="absl"):
        runs = find_runs([str(tmp_path)])
    names = {run.pipeline_run for run in runs}
    assert {"run-2", "run-4"} <= names
    assert any(str(store) in record.getMessage() and named in record.getMessage() for record in caplog.records)
    assert all(lineage_of_run(run).nodes for run in runs)
    assert store.read_bytes() == before


def test_a_store_without_odd_rows_is_not_copied(metadata: Any) -> None:
    path = str(metadata.root / SQLITE)
    with readable_copy(path) as readable:
        assert readable == path
