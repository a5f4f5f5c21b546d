"""Event files and folders that a module writes around its model are found in the model run, and their metrics read."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable

import pytest

from generic_trainer import FnArgs, TrainingOptions, train
from generic_trainer.executors.monitoring.metrics import event_files_below
from generic_trainer.executors.monitoring.run_record import RunRecord
from generic_trainer.executors.monitoring.series import read_metrics
from generic_trainer.executors.reporting.writing import keep_failed_run, report_on_exit
from generic_trainer.executors.runtime.files.artifact_layout import kept_folder

HERE = TrainingOptions(isolate=False)
LOGS = """
    import tensorflow as tf

    def log(folder, name, values):
        writer = tf.summary.create_file_writer(folder)
        with writer.as_default():
            for step, value in enumerate(values):
                tf.summary.scalar(name, value, step=step)
        writer.close()
"""


@pytest.fixture
def logging_module(module: Callable[..., str], tiny_source: str) -> Callable[[str], str]:
    """Writes a module that saves a model, and then executes statements with `model` for the model's folder."""

    def write(statements: str) -> str:
        lines = "\n".join(f"    {line}" for line in ["model = fn_args.serving_model_dir", *statements.splitlines()])
        return module(f"{tiny_source}{lines}\n", logs=LOGS)

    return write


def event_files(folder: pathlib.Path) -> list[str]:
    return sorted({os.path.dirname(name) for name in event_files_below(str(folder))})


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("os.path.dirname(model) + '/logs'", "outputs/logs"),
        ("os.path.dirname(os.path.dirname(model)) + '/logs'", "logs"),
        ("model + '/logs'", "outputs/Format-Serving/logs"),
    ],
    ids=["beside the model", "one folder further up", "in the model"],
)
def test_metrics_and_curves_are_those_of_event_files_around_the_model(
    place: str, found: str, logging_module: Callable[[str], str], fn_args: FnArgs
) -> None:
    path = logging_module(
        f"import os\nfrom logs import log\nlog({place} + '/train', 'loss', [0.5, 0.25])\n"
        f"log({place} + '/validation', 'auc', [0.75])"
    )
    record = train(path, fn_args, HERE)
    assert record.metrics == {"train": {"loss": 0.25}, "eval": {"auc": 0.75}}
    model_run = pathlib.Path(str(fn_args.model_run_dir))
    assert event_files(model_run) == [f"{found}/train", f"{found}/validation"]
    assert {metric.name: list(metric.splits) for metric in read_metrics(str(model_run))} == {
        "auc": ["eval"],
        "loss": ["train"],
    }
    assert os.path.exists(str(fn_args.serving_model_dir))


def test_what_is_written_above_the_published_folder_is_kept(
    logging_module: Callable[[str], str], fn_args: FnArgs
) -> None:
    path = logging_module(
        "import os\nfolder = os.path.dirname(os.path.dirname(model)) + '/checkpoints_of_mine'\n"
        "tf.train.Checkpoint(x=tf.Variable(1.0)).write(folder + '/last')"
    )
    for name in ("checkpoints_of_mine", "checkpoints_of_mine.1"):  # the folder of the run before stays
        train(path, fn_args, HERE)
        folder = pathlib.Path(str(fn_args.model_run_dir), name)
        assert (folder / "last.index").exists()


def test_logs_of_a_module_that_raised_are_kept(logging_module: Callable[[str], str], fn_args: FnArgs) -> None:
    path = logging_module(
        "import os\nfrom logs import log\nlog(os.path.dirname(model) + '/logs', 'loss', [0.5])\nraise KeyError('plot')"
    )
    with pytest.raises(KeyError):
        train(path, fn_args, HERE)
    assert event_files(pathlib.Path(str(fn_args.model_run_dir))) == ["outputs/logs"]


def test_a_failed_step_keeps_its_event_files_where_its_report_says(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "Trainer" / "model_run" / "7"
    (folder / "train").mkdir(parents=True)
    (folder / "train" / "events.out.tfevents.1").write_bytes(b"")
    record = RunRecord(arguments={"model_run_dir": str(folder)})
    with pytest.raises(KeyError), keep_failed_run(str(folder)), report_on_exit(record, str(folder)):
        with record.written_to(str(folder)):
            raise KeyError("data")
    kept = pathlib.Path(kept_folder(str(folder)))
    assert event_files(kept) == ["train"]
    assert str(kept) in (kept / "report.html").read_text()
