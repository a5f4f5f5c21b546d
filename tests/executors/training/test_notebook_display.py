"""A record is displayed in notebooks as a table of its metrics, the curve of its loss, and a link to its report."""

from __future__ import annotations

import math
import pathlib
import re
from collections.abc import Iterator

import pytest
from IPython.core.interactiveshell import InteractiveShell

from generic_trainer.executors.features.display import notebook
from generic_trainer.executors.monitoring.run_record import RunRecord
from generic_trainer.executors.reporting.writing import write_report

METRICS = {"train": {"auc": 0.95}, "eval": {"auc": 0.925, "<b>": 0.25}}


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    yield InteractiveShell.instance()
    InteractiveShell.clear_instance()


def write_losses(folder: pathlib.Path, values: list[float]) -> None:
    import tensorflow as tf

    writer = tf.summary.create_file_writer(str(folder))
    with writer.as_default():
        for epoch, value in enumerate(values):
            tf.summary.scalar("epoch_loss", value, step=epoch)
    writer.close()


def test_a_kernel_formats_records_as_a_table(shell: InteractiveShell) -> None:
    record = RunRecord(status="failed", metrics=METRICS)
    assert "text/html" not in shell.display_formatter.format(record)[0]
    notebook.register()
    shown = shell.display_formatter.format(record)[0]["text/html"]
    assert shown.startswith(f"<table><caption>Run {record.id[:8]} failed</caption>")
    rows = [re.findall("<td>(.*?)</td>", row) for row in shown.splitlines() if row.startswith("<tr>")]
    assert rows == [["", "train", "eval"], ["auc", "0.95", "0.925"], ["&lt;b&gt;", "", "0.25"]]
    assert "<svg" not in shown
    assert "<a " not in shown


def test_a_record_shows_its_loss_and_links_its_report(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "a run"
    record = RunRecord()
    with record.written_to(str(folder)):
        write_losses(folder / "train", [1.0, 0.5, 0.25])
        write_losses(folder / "validation", [0.75, math.nan, 0.25])
    write_report(str(folder))
    shown = notebook.html_of(record)
    assert re.findall('points="(.*?)"', shown) == ["0.0,0.0 160.0,60.0 320.0,90.0", "0.0,30.0 320.0,90.0"]
    assert "loss by epoch, from 1 to 0.25; eval is dashed" in shown
    assert f'href="{(folder / "report.html").as_uri()}"' in shown
    monkeypatch.chdir(tmp_path)
    assert 'href="a%20run/report.html"' in notebook.html_of(record)


def test_one_epoch_has_no_curve(tmp_path: pathlib.Path) -> None:
    record = RunRecord()
    with record.written_to(str(tmp_path / "run")):
        write_losses(tmp_path / "run" / "train", [1.0])
        write_losses(tmp_path / "run" / "validation", [0.75])
    assert "<svg" not in notebook.html_of(record)
