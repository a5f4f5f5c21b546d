"""The run of a command that trains: the logs that it keeps, its progress, and its summary."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from ..executors.distributed.tf_config import task_from_environment
from ..executors.monitoring import run_record
from ..executors.runtime.files import file_io
from ..executors.runtime.files.artifact_layout import EVAL_DIR, SERVING_DIRS
from ..executors.training.after_publishing import warned_after_publishing
from ..executors.training.callbacks import RunCallback
from .summary import print_summary, run_summary, summary_lines
from .tables import print_json
from .terminal import live_display, logs_kept_on_start, module_output

if TYPE_CHECKING:
    from ..executors.fn_args import FnArgs
    from ..executors.monitoring.run_record import RunRecord
    from ..executors.training.run_state import Run

Places: TypeAlias = "Mapping[str, str | None]"


def output_folders(output: str) -> dict[str, Any]:
    """Returns the arguments of `FnArgs` with the folders in an --output."""
    return {
        "serving_model_dir": os.path.join(output, "model", SERVING_DIRS[0]),
        "eval_model_dir": os.path.join(output, "model", EVAL_DIR),
        "model_run_dir": os.path.join(output, "model_run"),
    }


def run_and_summarize(
    fn_args: FnArgs,
    train: Callable[[], RunRecord],
    places: Callable[[], Places] | None = None,
    *,
    as_json: bool = False,
    starts_cluster: bool = False,
) -> None:
    """Calls a function that trains, with a progress display; prints the summary, with `places` of the ended run.

    A task of a cluster that publishes no model prints no summary, unless the function itself starts a cluster.
    """
    task = None if starts_cluster else task_from_environment()
    with module_output(as_json), live_display():
        record = train()
    if task is not None and not task.is_chief:
        click.echo(f"The {task} has finished.", err=as_json)
        return
    with warned_after_publishing():
        summary = run_summary(record, fn_args.serving_model_dir, fn_args.model_run_dir)
        if as_json:
            print_json(vars(summary))
            return
        usual = {"Model": summary.model, "Report": summary.report, "TensorBoard": summary.model_run}
        shown = {**(places() if places else usual), **summary_lines(record)}
        print_summary(shown, summary.metrics, summary.hyperparameters)


class OnStart(RunCallback):
    """Calls a function when every precondition holds, before the first write; it may move the model run away."""

    order = 25

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function

    @contextlib.contextmanager
    def run(self, run: Run) -> Iterator[None]:
        """Calls it, in the chief of a cluster as in other tasks."""
        self._function()
        yield


def on_start(model_run_dir: str, paths: Iterable[str] = ()) -> Callable[[], None]:
    """Returns what a command does when nothing can refuse its run any more: it keeps the finished run, and the logs.

    Args:
      model_run_dir: The run's folder.
      paths: Other paths that the run reads.
    """
    keep_logs = logs_kept_on_start(model_run_dir, paths)

    def start() -> None:
        keep_finished_run(model_run_dir)
        keep_logs()

    return start


def keep_finished_run(model_run_dir: str) -> None:
    """Renames the folder with logs and checkpoints of a finished run; an unfinished run is resumed from its folder.

    The caller holds the folder's lock, because a finished run may still be writing its report. In a cluster only the
    chief renames it.
    """
    task = task_from_environment()
    if (task is not None and not task.is_chief) or run_record.status_of(model_run_dir) != run_record.SUCCEEDED:
        return
    number = 1
    while file_io.exists(f"{model_run_dir}.{number}"):
        number += 1
    file_io.move(model_run_dir, f"{model_run_dir}.{number}")
    click.echo(f"The logs of the previous run were moved to {model_run_dir}.{number}.", err=True)
