"""What a model's folder keeps of how its records were read."""

from __future__ import annotations

import pathlib

import pytest

from generic_trainer.executors.dialects.elasticdl.readers.open_records import open_records
from generic_trainer.executors.dialects.elasticdl.record_reader import RECORDS, row_reader, write_record_reader


@pytest.mark.parametrize("params", [{}, {"sep": ";"}, {"columns": ["label", "age"], "sep": ";"}])
def test_a_csv_file_is_read_again_in_the_same_way(tmp_path: pathlib.Path, params: dict[str, object]) -> None:
    path = tmp_path / "data.csv"
    path.write_text("age;size;label\n31;5;0\n\n44;;1\n")
    records = open_records(str(path), params)

    write_record_reader(str(tmp_path / "model"), records, str(params.get("sep", ",")))
    read = row_reader(str(tmp_path / "model"), [RECORDS])

    assert read is not None
    values = [record.tolist() if params else record for record in records.dataset().as_numpy_iterator()]
    assert len(values) == (2 if params else 4)
    assert [record for batch in read(str(path), 3) for record in batch] == values
    assert row_reader(str(tmp_path / "model"), ["age"]) is None


def test_other_records_leave_nothing(tmp_path: pathlib.Path) -> None:
    from generic_trainer.executors.dialects.elasticdl.recordio.records import RecordWriter

    with RecordWriter(str(tmp_path / "data.recordio")) as file:
        file.write(b"one")
    write_record_reader(str(tmp_path / "model"), open_records(str(tmp_path / "data.recordio")), ",")
    assert row_reader(str(tmp_path / "model"), [RECORDS]) is None
