"""What a model's folder keeps of how its records were read."""

from __future__ import annotations

import pathlib

import pytest

from generic_trainer.executors.inputs.readers.open_records import open_records
from generic_trainer.executors.saved_models.record_reader import read_record_reader, write_record_reader


@pytest.mark.parametrize("params", [{}, {"sep": ";"}, {"columns": ["label", "age"], "sep": ";"}])
def test_a_csv_file_is_read_again_in_the_same_way(tmp_path: pathlib.Path, params: dict[str, object]) -> None:
    path = tmp_path / "data.csv"
    path.write_text("age;size;label\n31;5;0\n\n44;;1\n")
    records = open_records(str(path), params)

    write_record_reader(str(tmp_path / "model"), records, str(params.get("sep", ",")))
    again = open_records(str(path), read_record_reader(str(tmp_path / "model")))

    values = [list(map(str, one.dataset().as_numpy_iterator())) for one in (records, again)]
    assert len(values[0]) == (2 if params else 4)
    assert values[1] == values[0]


def test_other_records_leave_nothing(tmp_path: pathlib.Path) -> None:
    from generic_trainer.executors.inputs.recordio.records import RecordWriter

    with RecordWriter(str(tmp_path / "data.recordio")) as file:
        file.write(b"one")
    write_record_reader(str(tmp_path / "model"), open_records(str(tmp_path / "data.recordio")), ",")
    assert read_record_reader(str(tmp_path / "model")) is None
