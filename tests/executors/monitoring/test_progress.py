"""How far a training is: told by Keras's fits, Estimators and loops by hand, and shown as plain lines."""

from __future__ import annotations

import dataclasses
import importlib
import io
import pathlib
import time
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
from rich.console import Console

from generic_trainer import FnArgs, TrainingOptions, train
from generic_trainer.cli.live_display import LiveDisplay
from generic_trainer.executors.compat.keras import is_keras_2
from generic_trainer.executors.keras.fit_progress import fit_progress_reported
from generic_trainer.executors.keras.step_count import EpochLog
from generic_trainer.executors.modules.keras_version import _tensorflow_release
from generic_trainer.executors.monitoring import display, progress, progress_reports
from generic_trainer.executors.monitoring.display import Display, RecentProgress, Report, WorkProgress
from generic_trainer.executors.monitoring.progress_reports import Progress
from generic_trainer.executors.runtime.work import Work, advance

from ...world.data import outputs_in

MODULES = pathlib.Path(__file__).parents[3] / "module_files"
PACKAGES = ["keras", "tf_keras"] if _tensorflow_release() >= (2, 16) else ["keras"]
NEEDS_KERAS_3 = pytest.mark.skipif(_tensorflow_release() < (2, 16), reason="Keras 3 came with TensorFlow 2.16")


class Seen(Display):
    """Keeps what it is shown."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[Any] = []
        self.phases: list[str] = []

    def phase(self, name: str) -> Any:
        self.phases.append(name)
        return super().phase(name)

    def show(self, told: Report) -> None:
        self.told.append(told)


def watched(module: str, data: Any, folder: pathlib.Path, options: TrainingOptions | None = None) -> Seen:
    seen = Seen()
    fn_args = FnArgs(
        train_files=[data.train],
        eval_files=[data.eval],
        schema_path=data.schema,
        train_steps=60,
        eval_steps=2,
        **outputs_in(folder),
        eval_model_dir=str(folder / "model" / "Format-TFMA"),
    )
    with display.use_display(seen):
        train(module, fn_args, options)
    return seen


@NEEDS_KERAS_3
def test_keras_reports_steps_examples_and_metrics(iris: Any, tmp_path: pathlib.Path) -> None:
    seen = watched(str(MODULES / "iris_keras.py"), iris, tmp_path)
    last = seen.told[-1]
    assert (last.step, last.details["total"]) == (60, 60)
    assert last.examples == 60 * 16  # the module's batches
    assert {"loss", "accuracy", "val_loss"} <= last.details["metrics"].keys()
    assert seen.phases == ["inputs", "training", "check", "publish", "analysis"]


FITS = """
    import numpy as np
    import tensorflow as tf

    def run_fn(fn_args):
        keras = tf.keras
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        x, y = np.ones([100, 2], "float32"), np.ones([100, 1], "float32")
        model.fit(x, y, batch_size=10, epochs=2)
        dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(20).map(lambda *pair: pair).prefetch(1)
        model.fit(dataset, epochs=3, validation_data=dataset)
        model.evaluate(dataset)

        @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
        def serve(x):
            return {"y": model(x)}

        tf.saved_model.save(model, fn_args.serving_model_dir, signatures=serve)
"""


@pytest.mark.parametrize("keras", ["2", pytest.param("3", marks=NEEDS_KERAS_3)])
def test_consecutive_fits_continue_the_step_count(
    module: Callable[..., str], iris: Any, tmp_path: pathlib.Path, keras: str, capfd: pytest.CaptureFixture[str]
) -> None:
    last = watched(module(FITS), iris, tmp_path, TrainingOptions(keras=keras)).told[-1]
    assert (last.step, last.details["total"]) == (2 * 10 + 3 * 5, 2 * 10 + 3 * 5)
    assert last.examples == 2 * 100 + 3 * 100
    assert (last.details["epoch"], last.details["epochs"]) == (3, 3)
    assert "doing" not in last.details
    printed = capfd.readouterr().out
    assert printed.count("Epoch ") == 5
    assert "\b" not in printed  # no bar, of which each step would be a line


def test_a_training_in_this_process_is_displayed_too(
    module: Callable[..., str], iris: Any, tmp_path: pathlib.Path
) -> None:
    loop = """
        import tensorflow as tf
        from generic_trainer import report_progress

        def run_fn(fn_args):
            report_progress(10, total=20)
            for step in range(11, 21):
                report_progress(step, examples=7, metrics={"loss": tf.constant(0.5)})
            module = tf.Module()
            module.weight = tf.Variable(1.0)
            serve = tf.function(lambda x: {"y": module.weight * x}, input_signature=[tf.TensorSpec([None], name="x")])
            tf.saved_model.save(module, fn_args.serving_model_dir, signatures=serve)
    """
    for _ in range(2):  # the second one is not told to the first one's watcher
        last = watched(module(loop), iris, tmp_path, TrainingOptions(isolate=False)).told[-1]
        assert (last.first, last.step, last.steps, last.examples) == (10, 20, 10, 70)
        assert last.details == {"total": 20, "metrics": {"loss": 0.5}}
    assert not progress.is_watched()


@pytest.mark.legacy
@pytest.mark.slow
def test_estimators_report_steps_loss_and_checkpoints(iris: Any, tmp_path: pathlib.Path) -> None:
    seen = watched(str(MODULES / "iris_estimator.py"), iris, tmp_path)
    last = seen.told[-1]
    assert (last.step, last.details["total"]) == (60, 60)
    assert last.details["metrics"]["loss"] > 0
    assert last.details["saved"] == 60


@pytest.mark.slow
def test_a_custom_loop_reports_with_one_call(digits: Any, tmp_path: pathlib.Path) -> None:
    last = watched(str(MODULES / "digits_custom_loop.py"), digits, tmp_path).told[-1]
    assert (last.step, last.examples) == (60, 60 * 32)
    assert last.details["metrics"].keys() == {"loss"}
    assert last.details["saved"] == 60


def test_details_of_any_size_are_read(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = progress_reports.create_progress_file(str(tmp_path))
    monkeypatch.setenv(progress_reports.VARIABLE, path)
    metrics = {f"metric {number}": number for number in range(1000)}
    progress.report_progress(1, total=9, metrics=metrics)
    told = progress_reports.read(path)
    assert told is not None
    assert (told.step, told.details) == (1, {"total": 9, "metrics": metrics})
    progress.report_details(total=None, metrics={"loss": 1.0})
    assert progress_reports.read(path).details == {"metrics": {"loss": 1.0}}  # type: ignore[union-attr]


def told(seconds: float, step: int, **details: Any) -> Progress:
    return Progress(0, step, step, 32 * step, seconds, 0, details)


def test_progress_lines_become_less_frequent(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    shown = Display(clock=lambda: now)
    shown.begin()
    with caplog.at_level("INFO", logger="absl"):
        for second in range(3600):
            now = float(second)
            shown.show(told(now, 10 * second, total=36000, metrics={"loss": 0.25}))
    lines = [record.getMessage() for record in caplog.records]
    # Every 10 s until 100 s have gone by, then after another tenth of the time each: log(3600 / 100) / log(1.1).
    assert 10 + 30 < len(lines) < 10 + 40
    assert lines[0] == "Step 100 of 36,000, 10 steps/s, 320 examples/s, loss 0.25, 59 min 50 s left"


def test_a_line_without_a_step_for_a_minute_has_no_speed(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    shown = Display(clock=lambda: now)
    with caplog.at_level("INFO", logger="absl"):
        for second in range(3600):
            now = float(second)
            last = min(now, 3000.0)
            shown.show(dataclasses.replace(told(last, int(last), total=36000), age=now - last))
    lines = [record.getMessage() for record in caplog.records]
    first = next(index for index, line in enumerate(lines) if "no step" in line)
    assert lines[first] == "Step 3,000 of 36,000, no step for 60 s"  # at once, not after a tenth of the time
    assert lines[-1].startswith("Step 3,000 of 36,000, no step for ")
    assert all("steps/s" in line for line in lines[:first])
    assert not any("steps/s" in line for line in lines[first:])


@pytest.mark.parametrize(
    ("step", "age", "details", "expected"),
    [
        (0, 61.0, {"total": 100}, "Step 0 of 100, no step for 61 s"),  # the first step takes long
        (5, 59.0, {"total": 100}, "Step 5 of 100"),
        (5, 90.0, {"total": 100, "doing": "evaluating"}, "Step 5 of 100, evaluating"),
        (100, 90.0, {"total": 100}, "Step 100 of 100"),  # the model is being saved
    ],
)
def test_other_work_than_steps_is_no_stall(step: int, age: float, details: Any, expected: str) -> None:
    report = dataclasses.replace(told(10, step, **details), age=age)
    assert display.line(report, RecentProgress()) == expected


def test_the_speed_covers_the_last_seconds_and_restarts_after_a_failure() -> None:
    recent = RecentProgress()
    for second in range(100):
        recent.add(told(second, second if second < 50 else 50 + 10 * (second - 50)))
    assert recent.steps == pytest.approx(10)
    recent.add(told(1, 500))
    recent.add(told(2, 520))
    assert recent.steps == pytest.approx(20)
    assert RecentProgress().examples == 0


def test_metrics_have_a_trend() -> None:
    recent = RecentProgress()
    for second in range(20):
        metrics = {"loss": 1 - second / 100, "auc": 0.5 + second / 100, "flat": 1 + second % 2 / 10_000, "same": 2.0}
        recent.add(told(second, second, metrics=metrics))
    assert [recent.trend(name) for name in ("loss", "auc", "flat", "same", "none")] == [" ↓", " ↑", " →", "", ""]


def test_a_step_shows_its_share_and_about_how_long_it_takes() -> None:
    def shown(share: float, seconds: float) -> str:
        return display.line(WorkProgress("Transform", share, seconds), RecentProgress())

    assert shown(0.25, 10) == "Transform: 25 %, about 30 s left"
    assert shown(0.4156, 97.3) == "Transform: 41 %, about 2 min 20 s left"
    assert shown(0.999, 97.3) == "Transform: 99 %, about 1 s left"
    assert shown(1.0, 97.3) == "Transform: finishing"


def test_the_work_of_a_step_is_displayed_once_it_has_taken_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(display, "_POLL_SECONDS", 0.01)
    for least, is_displayed in ((0.05, True), (60.0, False)):
        monkeypatch.setattr(display, "_WORK_SECONDS", least)
        seen = Seen()
        with display.use_display(seen), display.watched_work("Transform", Work(total=10)):
            for _ in range(10):
                advance(1)
                time.sleep(0.02)
        shares = [one.share for one in seen.told if isinstance(one, WorkProgress)]
        assert bool(shares) == is_displayed
        assert shares == sorted(shares)
        assert shares[-1:] in ([], [1.0])
    advance(1)  # no step: a no-op


def test_the_line_names_the_innermost_phase() -> None:
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None, legacy_windows=False)
    live = LiveDisplay(console)
    with live.phase("training"):
        with live.phase("check"):
            console.print(live.line())
        console.print(live.line())
    checking, training = console.file.getvalue().splitlines()
    assert "Checking the model 0 s" in checking
    assert "Training" in training


@pytest.mark.parametrize("width", [200, 120, 80, 60, 40])
def test_a_narrow_line_keeps_percentage_loss_and_time_left(width: int) -> None:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None, legacy_windows=False)
    live = LiveDisplay(console)
    with live.phase("training"):
        for second in range(20):
            metrics = {"accuracy": 0.5 + second / 100, "loss": 1 - second / 100}
            live.show(told(second, 10 * second, total=36000, metrics=metrics, saved_at=time.monotonic(), workers=12))
        console.print(live.line())
    [said] = console.file.getvalue().splitlines()
    assert len(said.rstrip()) <= width
    for part in ("0 %", "loss 0.81 ↓", "59 min 41 s left" if width > 40 else "left"):
        assert part in said
    assert ("checkpoint" in said) == ("12 workers" in said) == (width == 200)


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize(
    ("data", "first", "last"),
    [
        (lambda x: x.repeat(), 20, 20),  # infinite
        (lambda x: x.repeat(5), 20, 20),  # 20 batches
        (lambda x: x, None, {"3": 8, "2": 4}),  # 4 batches, not 10
        (lambda x: x.filter(lambda *_: True), None, {"3": 8, "2": 8}),  # 4 batches, which is not known
    ],
    ids=["infinite", "long enough", "too short", "unknown"],
)
def test_the_total_is_reported_if_the_data_suffices(
    data: Any, first: int | None, last: Any, package: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keras = importlib.import_module(package)
    path = progress_reports.create_progress_file(str(tmp_path))
    monkeypatch.setenv(progress_reports.VARIABLE, path)
    totals: list[int | None] = []

    class Reading(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            totals.append(progress_reports.read(path).details.get("total"))

        def on_train_end(self, logs: Any = None) -> None:
            totals.append(progress_reports.read(path).details.get("total"))

    inputs = keras.Input((1,))
    model = keras.Model(inputs, keras.layers.Dense(1)(inputs))
    model.compile("sgd", "mse")
    batches = tf.data.Dataset.from_tensors((tf.ones([2, 1]), tf.ones([2, 1]))).repeat(4)
    with fit_progress_reported([], EpochLog()):
        model.fit(data(batches), steps_per_epoch=10, epochs=2, callbacks=[Reading()], verbose=0)
    assert totals[1] == first
    assert totals[-1] == (last if isinstance(last, int) else last["2" if is_keras_2(model) else "3"])
