"""DLRover's readers with `on_bad_records`: the good rows, each once an epoch, also over a crash."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
import tensorflow.compat.v1 as tf

from generic_trainer.executors.dialects.dlrover.columns import Columns
from generic_trainer.executors.dialects.dlrover.conf import DataSet
from generic_trainer.executors.dialects.dlrover.shim.column_info import Column
from generic_trainer.executors.dialects.dlrover.source import Source
from generic_trainer.executors.dialects.dlrover.sources import open_source
from generic_trainer.executors.inputs.bad_records import skipping
from generic_trainer.executors.inputs.readers.reader_errors import ReaderErrors

from ...inputs.test_bad_records import example, write

COLUMNS = (
    Column.create(name="x", dtype="float32", is_label=False),
    Column.create(name="y", dtype="int64", is_label=True),
)
BAD = (2, 5, 11, 19)
GOOD = [number for number in range(20) if number not in BAD]


class Plain:
    """Gives its rows one after the other."""

    def __init__(self, rows: list[str]) -> None:
        self.rows = rows

    def iterator(self) -> Iterator[str]:
        yield from self.rows


def opened(origin: Any, kind: str) -> Source:
    data = DataSet("train_set", COLUMNS, reader=origin if kind == "stream" else None, batch_size=4, epoch=2)
    return open_source(data, Columns.of(data, "conf"), [] if kind == "stream" else [origin], "conf")


def trained(source: Source, most: int = 1000) -> list[int]:
    """Reads labels, batch by batch, as a training does, and tells the source."""
    labels: list[int] = []
    errors = ReaderErrors()
    with tf.Graph().as_default(), tf.Session() as session, errors.reraised():
        dataset, fed = source.batches(4, errors)
        iterator = tf.data.make_initializable_iterator(dataset.map(source.decode))
        following = iterator.get_next()
        session.run(iterator.initializer, {tensor: value() for tensor, value in fed.items()})
        while len(labels) < most:
            try:
                batch = session.run(following)[1].tolist()
            except tf.errors.OutOfRangeError:
                break
            labels += batch
            source.trained(len(batch))
    return labels


@pytest.fixture(params=["text", "stream", "examples"])
def origin(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> tuple[Any, str]:
    rows = [f"{n}.0,{n}" if n not in BAD else ("word,1" if n == 5 else "1") for n in range(20)]
    if request.param == "stream":
        return Plain(rows), "stream"
    if request.param == "text":
        path = tmp_path / "rows.csv"
        path.write_text("\n".join(rows) + "\n")
        return str(path), "text"
    records = [example(n) if n != 5 else b"\xff\xff" for n in range(20)]
    return write(tmp_path / "records", records, damaged=(2, 11, 19)), "examples"


def test_every_good_row_is_trained_once_an_epoch_over_a_crash(origin: tuple[Any, str]) -> None:
    with skipping(len(BAD)) as bad:
        source = opened(*origin)
        before = trained(source, 8)
        again = opened(*origin)
        again.restart(source.position())
        after = trained(again)
    assert before + after == GOOD * 2
    assert bad is not None
    assert bad.count == len(BAD)  # in two epochs and two tries


def test_a_run_that_failed_without_the_option_resumes_with_it(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "records", [example(n) for n in range(20)], damaged=(5,))
    with skipping(1):
        source = opened(path, "examples")
        source.restart(json.dumps({"of": path, "rows": 4}))  # as of the reader for one worker, which counts records
        assert trained(source) == [4, *range(6, 20), *(n for n in range(20) if n != 5)]
