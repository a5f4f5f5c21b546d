"""Curves are read off event files as they were logged, without TensorFlow."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from generic_trainer.executors.monitoring.run_record import RunRecord
from generic_trainer.executors.monitoring.series import POINTS, Curve, read_metrics, step_rates
from generic_trainer.executors.reporting.writing import write_report


def write_scalars(folder: pathlib.Path, name: str, values: list[tuple[int, float]], dtype: str = "float32") -> None:
    import tensorflow as tf

    writer = tf.summary.create_file_writer(str(folder))
    with writer.as_default():
        for step, value in values:
            tf.summary.scalar(name, tf.constant(value, dtype), step=step)
    writer.close()


def test_a_metric_has_a_curve_for_each_split_by_its_own_axis(tmp_path: pathlib.Path) -> None:
    write_scalars(tmp_path / "train", "epoch_loss", [(0, 0.5), (1, 0.25)])
    write_scalars(tmp_path / "validation", "epoch_loss", [(0, 0.75), (1, 0.5)])
    write_scalars(tmp_path / "validation", "evaluation_loss_vs_iterations", [(8, 0.75), (16, 0.5)])
    write_scalars(tmp_path / "train", "auc", [(100, 0.875)])
    loss, loss_by_step, auc = read_metrics(str(tmp_path))
    assert (loss.name, loss.axis, list(loss.splits)) == ("loss", "epoch", ["train", "eval"])
    assert (loss.splits["train"].steps, loss.splits["train"].values) == ((0, 1), (0.5, 0.25))
    assert loss.splits["eval"].values == (0.75, 0.5)
    assert (loss_by_step.axis, loss_by_step.splits["eval"].steps) == ("step", (8, 16))
    assert (auc.name, auc.axis, auc.splits["train"].values) == ("auc", "step", (0.875,))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_numbers_of_any_precision_are_read(tmp_path: pathlib.Path, dtype: str) -> None:
    write_scalars(tmp_path, "loss", [(1, 0.5), (2, 1.25)], dtype)
    [loss] = read_metrics(str(tmp_path))
    assert loss.splits["train"].values == (0.5, 1.25)


def test_summaries_of_tensorflow_1_are_read_as_estimators_write_them(tmp_path: pathlib.Path) -> None:
    import tensorflow as tf

    with tf.io.TFRecordWriter(str(tmp_path / "events.out.tfevents.1.host")) as file:
        for step in (1, 2):
            value = tf.compat.v1.Summary.Value(tag="global_step/sec", simple_value=10.0 * step)
            event = tf.compat.v1.Event(step=step, wall_time=step, summary=tf.compat.v1.Summary(value=[value]))
            file.write(event.SerializeToString())
    [speed] = read_metrics(str(tmp_path))
    assert speed == type(speed)("global_step/sec", "step", {"train": Curve((1, 2), (10.0, 20.0), (1.0, 2.0))})


def test_a_truncated_file_is_read_up_to_the_truncation(tmp_path: pathlib.Path) -> None:
    write_scalars(tmp_path, "loss", [(step, float(step)) for step in range(5)])
    [file] = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-7])
    [loss] = read_metrics(str(tmp_path))
    assert loss.splits["train"].steps == (0, 1, 2, 3)


def test_a_resumed_training_has_one_curve(tmp_path: pathlib.Path) -> None:
    write_scalars(tmp_path, "loss", [(step, 1.0) for step in range(6)])
    write_scalars(tmp_path, "loss", [(step, 0.5) for step in range(3, 5)])  # from the checkpoint of step 2
    [loss] = read_metrics(str(tmp_path))
    assert loss.splits["train"].steps == (0, 1, 2, 3, 4)
    assert loss.splits["train"].values == (1.0, 1.0, 1.0, 0.5, 0.5)


def test_nonfinite_values_are_gaps(tmp_path: pathlib.Path) -> None:
    write_scalars(tmp_path, "loss", [(0, 1.0), (1, float("nan")), (2, float("inf"))])
    [loss] = read_metrics(str(tmp_path))
    assert loss.splits["train"].values == (1.0, None, None)
    assert loss.splits["train"].nonfinite_steps == (1, 2)
    write_report(str(tmp_path), RunRecord(metrics={"eval": {"loss": 1.0}}))
    assert "loss (train) was NaN or infinite 2 times, first at step 1." in (tmp_path / "report.html").read_text()


def test_a_long_curve_is_downsampled_and_keeps_its_peaks_and_ends(tmp_path: pathlib.Path) -> None:
    values = [(step, 0.5) for step in range(3000)]
    values[1234] = (1234, 9.0)
    values[2345] = (2345, -9.0)
    write_scalars(tmp_path, "loss", values)
    [loss] = read_metrics(str(tmp_path))
    curve = loss.splits["train"]
    assert POINTS / 3 < len(curve.steps) <= POINTS
    assert curve.steps == tuple(sorted(curve.steps))
    assert (curve.steps[0], curve.steps[-1]) == (0, 2999)
    assert curve.values[curve.steps.index(1234)] == 9.0
    assert curve.values[curve.steps.index(2345)] == -9.0


def test_steps_per_second_are_those_between_two_points() -> None:
    # 100 steps in 2 s, then 50 in 0.5 s.
    assert step_rates(Curve((0, 100, 150), (1.0, 1.0, 1.0), (10.0, 12.0, 12.5))) == ([2.0, 2.5], [50.0, 100.0])


def test_scalars_logged_once_are_in_a_table_unless_shown_elsewhere(tmp_path: pathlib.Path) -> None:
    write_scalars(tmp_path / "train", "vocabulary", [(0, 42.0)])
    write_scalars(tmp_path / "train", "epoch_loss", [(0, 0.5)])
    write_report(str(tmp_path), RunRecord(metrics={"train": {"loss": 0.5}}))
    page = (tmp_path / "report.html").read_text()
    table = page.partition("<caption>Logged once</caption>")[2].partition("</table>")[0]
    assert ">vocabulary</th>" in table
    assert ">42</td>" in table
    assert "loss" not in table


def test_a_folder_without_logs_has_no_metrics(tmp_path: pathlib.Path) -> None:
    assert read_metrics(str(tmp_path)) == []
    assert read_metrics(str(tmp_path / "missing")) == []


def test_neither_tensorflow_nor_numpy_is_imported_to_read_curves_and_make_a_page(tmp_path: pathlib.Path) -> None:
    write_scalars(tmp_path, "loss", [(0, 0.5), (1, 0.25)])
    program = f"""
        import sys
        from generic_trainer.executors.monitoring.run_record import RunRecord
        from generic_trainer.executors.reporting.writing import write_report
        write_report({str(tmp_path)!r}, RunRecord(status="succeeded"))
        print([name for name in ("tensorflow", "numpy", "tfx.types") if name in sys.modules])
    """
    line = [sys.executable, "-c", "\n".join(row.strip() for row in program.splitlines())]
    assert subprocess.run(line, capture_output=True, text=True, check=True).stdout.strip() == "[]"
    assert "0.25" in (tmp_path / "report.html").read_text()
