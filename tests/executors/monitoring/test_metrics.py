"""Metrics are the last values that a module logged for TensorBoard, or what its `run_fn` returned."""

from __future__ import annotations

import importlib
import pathlib
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from generic_trainer.executors.monitoring.event_files import from_event_files
from generic_trainer.executors.monitoring.metrics import from_return_value, sizes_of_event_files
from generic_trainer.executors.monitoring.series import read_metrics


def log(folder: pathlib.Path | str, **series: list[float]) -> None:
    """Writes one scalar after the other with tf.summary."""
    writer = tf.summary.create_file_writer(str(folder))
    with writer.as_default():
        for tag, values in series.items():
            for step, value in enumerate(values):
                tf.summary.scalar(tag, value, step)
    writer.close()


def only_file(folder: pathlib.Path) -> pathlib.Path:
    (path,) = folder.iterdir()
    return path


@pytest.fixture(params=["keras", "tf_keras"])
def keras(request: pytest.FixtureRequest) -> ModuleType:
    """Keras 3 and, where it is installed, Keras 2."""
    return pytest.importorskip(request.param)


def fit(keras: ModuleType, epochs: int = 2, **options: Any) -> Any:
    """Trains y = x for some epochs, with validation, and returns the History."""
    x = np.arange(8.0, dtype="float32")[:, None] / 8
    model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1)])
    model.compile("sgd", "mse", metrics=["mae"])
    return model.fit(x, x, validation_data=(x, x), epochs=epochs, verbose=0, **options)


class TestEventFiles:
    def test_the_last_value_of_each_scalar_counts(self, tmp_path: pathlib.Path) -> None:
        log(tmp_path / "train", loss=[0.5, 0.25], accuracy=[0.75])
        log(tmp_path / "validation", loss=[2.0, 1.0])

        assert from_event_files(str(tmp_path)) == {"train": {"accuracy": 0.75, "loss": 0.25}, "eval": {"loss": 1.0}}

    def test_the_split_may_be_at_any_part_of_a_name(self, tmp_path: pathlib.Path) -> None:
        names = {
            "Loss/validation": [0.1],
            "Loss/train": [0.2],
            "metrics/val_f1": [0.3],
            "Eval/auc": [0.4],
            "a/b": [0.5],
        }
        log(tmp_path, **names)

        found = from_event_files(str(tmp_path))
        assert found["train"] == pytest.approx({"Loss": 0.2, "a/b": 0.5})
        assert found["eval"] == pytest.approx({"Loss": 0.1, "metrics/f1": 0.3, "auc": 0.4})

    def test_keras_logs_have_the_values_of_the_history(self, tmp_path: pathlib.Path, keras: ModuleType) -> None:
        callback = keras.callbacks.TensorBoard(str(tmp_path / "logs"))

        history = fit(keras, callbacks=[callback]).history

        found = from_event_files(str(tmp_path))
        for split, prefix in (("train", ""), ("eval", "val_")):
            assert (
                found[split].items()
                >= {name: pytest.approx(history[f"{prefix}{name}"][-1]) for name in ("loss", "mae")}.items()
            )
        assert set(found["eval"]) == {"loss", "mae"}

    def test_keras_logs_of_batches_do_not_replace_those_of_epochs(
        self, tmp_path: pathlib.Path, keras: ModuleType
    ) -> None:
        callback = keras.callbacks.TensorBoard(str(tmp_path), update_freq="batch")

        history = fit(keras, callbacks=[callback], batch_size=2).history

        assert from_event_files(str(tmp_path))["train"]["loss"] == pytest.approx(history["loss"][-1])

    def test_summaries_of_tensorflow_1_are_read(self, tmp_path: pathlib.Path) -> None:
        with tf.Graph().as_default():
            writer = tf.compat.v1.summary.FileWriter(str(tmp_path / "eval"))
            summary = tf.compat.v1.Summary()
            summary.value.add(tag="auc", simple_value=0.75)
            writer.add_summary(summary, 1)
            writer.close()

        assert from_event_files(str(tmp_path)) == {"eval": {"auc": 0.75}}

    @pytest.mark.parametrize("folder", ["eval", "validation", "val", "test", "eval_holdout", "logs/validation/fold1"])
    def test_folders_for_evaluation(self, tmp_path: pathlib.Path, folder: str) -> None:
        log(tmp_path / folder, loss=[1.0])

        assert from_event_files(str(tmp_path)) == {"eval": {"loss": 1.0}}

    @pytest.mark.parametrize("prefix", ["eval/", "evaluation/", "val/", "validation/", "test/", "val_", "eval_"])
    def test_names_for_evaluation(self, tmp_path: pathlib.Path, prefix: str) -> None:
        log(tmp_path, **{"train/loss": [0.5], f"{prefix}loss": [2.0, 1.0], f"{prefix}by_slice/auc": [0.75]})

        expected = {"train": {"loss": 0.5}, "eval": {"loss": 1.0, "by_slice/auc": 0.75}}
        assert from_event_files(str(tmp_path)) == expected
        curves = {metric.name: metric.splits for metric in read_metrics(str(tmp_path))}
        assert {name: list(splits) for name, splits in curves.items()} == {
            "loss": ["train", "eval"],
            "by_slice/auc": ["eval"],
        }
        assert curves["loss"]["eval"].values == (2.0, 1.0)

    def test_metrics_of_the_same_name_are_both_kept(self, tmp_path: pathlib.Path) -> None:
        log(tmp_path, **{"test/loss": [3.0], "val/loss": [2.0], "loss": [0.5], "train/loss": [1.0], "evaluate": [7.0]})

        assert from_event_files(str(tmp_path)) == {
            "train": {"loss": 0.5, "train/loss": 1.0, "evaluate": 7.0},
            "eval": {"loss": 2.0, "test/loss": 3.0},
        }
        assert {metric.name for metric in read_metrics(str(tmp_path))} == {
            "loss",
            "train/loss",
            "test/loss",
            "evaluate",
        }

    @pytest.mark.parametrize("folder", ["", "train", "logs/train", "run_7"])
    def test_all_other_folders_are_for_training(self, tmp_path: pathlib.Path, folder: str) -> None:
        log(tmp_path / folder, loss=[1.0])

        assert from_event_files(str(tmp_path)) == {"train": {"loss": 1.0}}

    def test_the_name_of_the_runs_own_folder_is_ignored(self, tmp_path: pathlib.Path) -> None:
        log(tmp_path / "eval_of_ideas" / "train", loss=[1.0])

        assert from_event_files(str(tmp_path / "eval_of_ideas")) == {"train": {"loss": 1.0}}

    def test_the_newest_file_counts(self, tmp_path: pathlib.Path) -> None:
        log(tmp_path / "train" / "z_first", loss=[9.0])
        log(tmp_path / "train" / "a_second", loss=[1.0])

        assert from_event_files(str(tmp_path)) == {"train": {"loss": 1.0}}

    def test_logs_of_an_earlier_run_are_skipped(self, tmp_path: pathlib.Path) -> None:
        log(tmp_path / "train", loss=[9.0], old=[1.0])
        earlier = sizes_of_event_files(str(tmp_path))
        log(tmp_path / "train", loss=[0.5])

        assert from_event_files(str(tmp_path), earlier) == {"train": {"loss": 0.5}}
        assert from_event_files(str(tmp_path), sizes_of_event_files(str(tmp_path))) == {}

    def test_a_truncated_file_is_read_up_to_the_truncation(self, tmp_path: pathlib.Path) -> None:
        log(tmp_path, loss=[3.0, 2.0, 1.0])
        path = only_file(tmp_path)
        path.write_bytes(path.read_bytes()[:-10])

        assert from_event_files(str(tmp_path)) == {"train": {"loss": 2.0}}

    def test_a_damaged_file_is_read_up_to_the_damage(self, tmp_path: pathlib.Path) -> None:
        log(tmp_path, loss=[3.0, 2.0, 1.0])
        path = only_file(tmp_path)
        content = bytearray(path.read_bytes())
        content[-10] ^= 1  # of the last event
        path.write_bytes(content)

        assert from_event_files(str(tmp_path)) == {"train": {"loss": 2.0}}

    def test_other_files_are_skipped(self, tmp_path: pathlib.Path) -> None:
        (tmp_path / "events.out.tfevents.1.junk").write_bytes(b"no event" * 100)
        (tmp_path / "events.out.tfevents.2.empty").write_bytes(b"")
        log(tmp_path / "train", other=[1.0])
        only_file(tmp_path / "train").rename(tmp_path / "train" / "kept_elsewhere")
        log(tmp_path, loss=[1.0])

        assert from_event_files(str(tmp_path)) == {"train": {"loss": 1.0}}

    def test_only_scalars_are_metrics(self, tmp_path: pathlib.Path) -> None:
        with tf.summary.create_file_writer(str(tmp_path)).as_default() as writer:
            tf.summary.histogram("weights", [1.0, 2.0], step=0)
            tf.summary.text("note", "hello", step=0)
            tf.summary.scalar("loss", 1.0, step=0)
            writer.close()

        assert from_event_files(str(tmp_path)) == {"train": {"loss": 1.0}}

    @pytest.mark.parametrize("last", [float("nan"), float("inf")])
    def test_a_metric_that_ended_with_nan_is_omitted(self, tmp_path: pathlib.Path, last: float) -> None:
        log(tmp_path, loss=[1.0, last], mae=[last, 0.5])

        assert from_event_files(str(tmp_path)) == {"train": {"mae": 0.5}}

    def test_no_folder_and_no_logs_are_no_metrics(self, tmp_path: pathlib.Path) -> None:
        assert from_event_files("") == {}
        assert from_event_files(str(tmp_path)) == {}
        assert from_event_files(str(tmp_path / "nowhere")) == {}
        assert from_event_files("ram://nowhere/at/all") == {}

    def test_logs_on_another_file_system_are_read(self, tmp_path: pathlib.Path) -> None:
        log(f"ram://{tmp_path.name}/validation", loss=[1.0])

        assert from_event_files(f"ram://{tmp_path.name}") == {"eval": {"loss": 1.0}}


class TestReturnValue:
    def test_a_dict_of_numbers(self) -> None:
        returned = {"loss": 0.5, "steps": 7, "val_auc": np.float32(0.75), "eval_loss": tf.constant(0.25)}

        assert from_return_value(returned) == {
            "train": {"loss": 0.5, "steps": 7.0},
            "eval": {"auc": 0.75, "loss": 0.25},
        }

    def test_a_dict_for_each_split(self) -> None:
        returned = {"train": {"loss": [0.75, 0.5]}, "validation": {"auc": np.float64(0.75)}, "eval/loss": 0.25}

        assert from_return_value(returned) == {"train": {"loss": 0.5}, "eval": {"auc": 0.75, "loss": 0.25}}

    def test_of_a_list_the_last_value(self) -> None:
        assert from_return_value({"loss": [3.0, 2.0], "val_loss": (4.0, 1.0)}) == {
            "train": {"loss": 2.0},
            "eval": {"loss": 1.0},
        }

    def test_a_history_of_keras(self, keras: ModuleType) -> None:
        history = fit(keras)

        assert from_return_value(history) == {
            "train": {"loss": history.history["loss"][-1], "mae": history.history["mae"][-1]},
            "eval": {"loss": history.history["val_loss"][-1], "mae": history.history["val_mae"][-1]},
        }

    def test_values_that_are_no_numbers_are_left_out(self) -> None:
        returned = {"loss": 0.5, "name": "taxi", "version": "3", "layers": [], "nested": {"a": 1}, "none": None}

        assert from_return_value(returned) == {"train": {"loss": 0.5}}

    @pytest.mark.parametrize("last", [float("nan"), float("-inf")])
    def test_values_that_are_not_finite_are_left_out(self, last: float) -> None:
        assert from_return_value({"loss": [1.0, last], "mae": 0.5}) == {"train": {"mae": 0.5}}

    @pytest.mark.parametrize("returned", [None, 0.5, "done", [0.5], object(), {}])
    def test_anything_else_is_no_metric(self, returned: Any) -> None:
        assert from_return_value(returned) == {}

    def test_a_fitted_model_is_no_metric(self) -> None:
        model = fit(importlib.import_module("keras")).model

        assert from_return_value(model) == {}
