"""`generic-trainer elasticdl train|evaluate|predict`: ElasticDL's commands, with ElasticDL's command line flags."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from typing import Any, NoReturn

import click

from .....cli.foreign_flags import abbreviations
from .....cli.submitted_command import JobCommand, Submittable
from .....cli.summary import print_summary
from .....cli.training_flags import options_from, training_flags
from .....cli.training_run import OnStart, on_start, run_and_summarize
from .....cli.worker_counts import CountFlags, with_counts
from ....errors import InputError
from ....fn_args import FnArgs
from ....monitoring.run_record import RunRecord
from ....options import LOCAL
from ....runtime.files import file_io
from ....runtime.logs.setup import LOG_NAME, keep_logs
from ....training.run import train as run_training
from .. import worker
from .flags import DEFAULT_OUTPUT, IMAGE, effective_flags, elasticdl_flags, flags_of, model_file
from .prepare import prepare

_NOT_IN_CONFIG = ("model_zoo", "model_def", "output")
_COUNTS = CountFlags("num_workers", "num_ps_pods")
_SUBMITTABLE = Submittable(
    "model_zoo",
    file_in=lambda values: model_file(values["model_zoo"], values["model_def"])[0],
    named_by="model_def",
    counts=_COUNTS,
    replaced=("distribution_strategy",),
    tables=("training_data", "validation_data"),
    inputs=("checkpoint_dir_for_init",),
    outputs=("checkpoint_dir",),
)


@click.group()
def elasticdl() -> None:
    """Trains, evaluates and predicts with ElasticDL model files.

    Accepts the flags of all ElasticDL releases.

    \b
    Example:
      generic-trainer elasticdl train --model_zoo=model_zoo --model_def=iris.iris.custom_model \\
          --training_data=iris.csv --validation_data=iris.csv --num_epochs=2 --output=iris_model
    """  # noqa: D301 (click's mark of lines to keep)


@click.command(hidden=True, context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def _images(command: tuple[str, ...]) -> NoReturn:
    """Refuses `zoo init`, `zoo build`, `zoo push`, and `clean` of the first release."""
    words = [str(click.get_current_context().info_name), *(word for word in command if not word.startswith("-"))]
    raise InputError(f"elasticdl {' '.join(words[:2])}: there are no images to manage: {IMAGE}.")


elasticdl.add_command(prepare)
elasticdl.add_command(_images, "zoo")
elasticdl.add_command(_images, "clean")


@elasticdl.command(context_settings=abbreviations(flags_of("train")), cls=JobCommand, submittable=_SUBMITTABLE)
@elasticdl_flags("train")
@training_flags
def train(**flags: object) -> None:
    """Trains a model file and writes a checked SavedModel.

    \b
    Example:
      generic-trainer elasticdl train --model_zoo=model_zoo --model_def=iris.iris.custom_model \\
          --training_data=iris.csv --num_epochs=2 --output=iris_model
    """  # noqa: D301 (click's mark of lines to keep)
    flags["dialect"] = "elasticdl"
    options = options_from(flags)
    given = effective_flags("train", flags, options.engine != LOCAL, options.ps)
    options = with_counts(options, given, _COUNTS)
    given = {name: value for name, value in given.items() if name not in (_COUNTS.workers, _COUNTS.servers)}
    module, model_name, fn_args = _make_job(given)
    fn_args.seed = options.seed

    def places() -> dict[str, str | None]:
        return {
            "Model": fn_args.serving_model_dir,
            "Checkpoints": _checkpoints(fn_args),
            "TensorBoard": fn_args.model_run_dir,
        }

    def run() -> RunRecord:
        return run_training(module, fn_args, options, function=model_name, callbacks=[OnStart(start)])

    start = on_start(fn_args.model_run_dir)
    run_and_summarize(fn_args, run, places)


@elasticdl.command(context_settings=abbreviations(flags_of("evaluate")))
@elasticdl_flags("evaluate")
def evaluate(**flags: object) -> None:
    """Evaluates a checkpoint and prints its metrics.

    \b
    Example:
      generic-trainer elasticdl evaluate --model_zoo=model_zoo --model_def=iris.iris.custom_model \\
          --validation_data=iris.csv --checkpoint_dir_for_init=iris_model_run/checkpoints
    """  # noqa: D301 (click's mark of lines to keep)
    metrics = _run_worker("evaluate", effective_flags("evaluate", flags))
    print_summary({}, {"eval": metrics})


@elasticdl.command(context_settings=abbreviations(flags_of("predict")))
@elasticdl_flags("predict")
def predict(**flags: object) -> None:
    """Runs batch inference with a checkpoint.

    Predictions go to the model file's processor and to predictions.jsonl in --output.

    \b
    Example:
      generic-trainer elasticdl predict --model_zoo=model_zoo --model_def=iris.iris.custom_model \\
          --prediction_data=iris.csv --checkpoint_dir_for_init=iris_model_run/checkpoints --output=out
    """  # noqa: D301 (click's mark of lines to keep)
    given = effective_flags("predict", flags)
    count = _run_worker("predict", given)["count"]
    click.echo(f"{count:.0f} predictions: {os.path.join(given['output'], 'predictions.jsonl')}")


def _run_worker(action: str, given: Mapping[str, Any]) -> dict[str, float]:
    module, model_name, fn_args = _make_job(given)
    with tempfile.TemporaryDirectory(prefix="generic-trainer-") as scratch:
        keep_logs(os.path.join(scratch, LOG_NAME))
        return worker.run(action, module, model_name, fn_args, scratch)


def _make_job(given: Mapping[str, Any]) -> tuple[str, str, FnArgs]:
    """Returns the model file's path, the model's name in it, and the job's FnArgs."""
    path, model_name = model_file(given["model_zoo"], given["model_def"])
    output = given.get("output", DEFAULT_OUTPUT)
    config = {name: value for name, value in given.items() if name not in _NOT_IN_CONFIG}
    validation = config.get("validation_data", "")
    fn_args = FnArgs(
        train_files=[],
        eval_files=[validation] if validation and os.path.isfile(validation) else [],
        serving_model_dir=output,
        model_run_dir=f"{output.rstrip('/')}_run",
        custom_config=config,
    )
    return path, model_name, fn_args


def _checkpoints(fn_args: FnArgs) -> str:
    folder = (fn_args.custom_config or {}).get("checkpoint_dir") or os.path.join(fn_args.model_run_dir, "checkpoints")
    return str(folder) if file_io.isdir(folder) else ""
