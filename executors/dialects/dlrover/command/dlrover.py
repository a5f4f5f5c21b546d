"""`generic-trainer dlrover --conf=module.Class`: trains a DLRover conf, with DLRover's command line flags."""

from __future__ import annotations

import os
import sys

import click

from .....cli.foreign_flags import abbreviations, removed_flags, without_removed
from .....cli.number_type import NumberType
from .....cli.path_type import DIR, ReferenceType
from .....cli.submitted_command import JobCommand, Submittable
from .....cli.terminal import logs_kept_on_start
from .....cli.training_flags import custom_config_flag, options_from, parse_custom_config, training_flags
from .....cli.training_run import OnStart, output_folders, run_and_summarize
from .....cli.worker_counts import CountFlags, with_counts
from ....errors import InputError, did_you_mean
from ....fn_args import FnArgs
from ....monitoring import run_record
from ....number_range import TASKS, WORKERS
from ....options import LOCAL, TrainingOptions
from ....training.run import train as run_training
from ..conf import HAS_TRAINED, LABEL_IN_SIGNATURE, RESTART_DATA, USE_CONF_MODEL_DIR

# DLRover's local platforms simulate a cluster with processes on this machine.
_LOCAL = ("LOCAL", "LOCAL_KUBERNETES", "LOCAL_RAY")
_CLUSTERS = ("KUBERNETES", "RAY")
_NO_SCALER = "use --workers MIN:MAX to set the range of workers"
_NO_MASTER = "there is no master process"
_REMOVED = {
    "evaluator_num": "the chief evaluates and exports the model",
    "enable_auto_scaling": _NO_SCALER,
    "task_id": "each process reads its task from TF_CONFIG",
    "task_type": "each process reads its task from TF_CONFIG",
    "worker_action": _NO_MASTER,
    "mock": _NO_MASTER,
}
_ABBREVIATED = ("conf", "platform", "worker_num", *_REMOVED)  # not ps_num: --ps is an option here
_COUNTS = CountFlags("worker_num", "ps_num", needs_server=True)
_SUBMITTABLE = Submittable(
    "conf",
    counts=_COUNTS,
    note="The conf's data and model_dir, for checkpoints and exports, must be URIs or on a volume.",
)


@click.command(context_settings=abbreviations(_ABBREVIATED), cls=JobCommand, submittable=_SUBMITTABLE)
@click.option(
    "--conf", required=True, type=ReferenceType("module.class|file"), help="Conf class, or a file that defines one."
)
@click.option(
    "--platform", default="Local", show_default=True, help="Platform; must be Local. For a cluster, use `submit`."
)
@click.option(
    "--output",
    default="dlrover_output",
    show_default=True,
    type=DIR,
    help="Output directory of the checked model and the run record.",
)
@click.option(
    "--restart_data",
    is_flag=True,
    help="Start at the first row of the data, not at the checkpoint's position; weights are kept.",
)
@click.option("--label_in_signature", is_flag=True, help="Include the label in the serving signature, as DLRover did.")
@click.option("--worker_num", type=NumberType(WORKERS), help="Alias of --workers; ignored without --engine=ray.")
@click.option(
    "--ps_num",
    type=NumberType(TASKS),
    help="Alias of --ps (default: 1 for several workers); ignored without --engine=ray.",
)
@removed_flags(_REMOVED)
@custom_config_flag
@training_flags
def dlrover(conf: str, platform: str, output: str, custom_config: str | None, **flags: object) -> None:
    """Trains, evaluates and exports the model of a DLRover conf.

    Checkpoints and exports are written to the conf's model_dir. An interrupted job resumes from there, after the last
    row that the checkpoint was trained on. After a finished job, the next one starts with its weights at the first row.

    \b
    Examples:
      generic-trainer dlrover --conf=train_conf.TrainConf
      generic-trainer dlrover --conf=train_conf.TrainConf --engine=ray --worker_num=3 --ps_num=1
    """  # noqa: D301 (click's mark of lines to keep)
    _require_local(platform)
    sys.path.insert(0, os.getcwd())  # as `python -m dlrover.trainer` does
    flags = {**without_removed(flags, _REMOVED), "dialect": "dlrover"}
    options: TrainingOptions = with_counts(options_from(flags), flags, _COUNTS)
    if options.engine == LOCAL:
        for name in (name for name in ("worker_num", "ps_num") if flags[name]):
            click.echo(f"--{name} is ignored: without --engine=ray there is only one process.", err=True)
    model_run = os.path.join(output, "model_run")
    is_unfinished = run_record.status_of(model_run) != run_record.SUCCEEDED
    fn_args = FnArgs(
        train_files=[],
        eval_files=[],
        **output_folders(output),
        custom_config={
            **(parse_custom_config(custom_config) or {}),
            USE_CONF_MODEL_DIR: True,
            RESTART_DATA: flags["restart_data"],
            HAS_TRAINED: is_unfinished and run_record.is_trained(run_record.read(model_run).phases),
            LABEL_IN_SIGNATURE: flags["label_in_signature"],
        },
        seed=options.seed,
    )
    places = {"Model": fn_args.serving_model_dir, "Record": model_run}
    callbacks = [OnStart(logs_kept_on_start(model_run))]
    run_and_summarize(fn_args, lambda: run_training(conf, fn_args, options, callbacks=callbacks), lambda: places)


def _require_local(platform: str) -> None:
    name = platform.upper()
    if name in _CLUSTERS:
        raise InputError(
            f"--platform={platform}: on a cluster, create a job from this command with `generic-trainer submit --to "
            "kuberay`. Use --platform=Local, also in the processes of a cluster, which get their tasks from TF_CONFIG."
        )
    if name not in _LOCAL:
        raise InputError(f"--platform={platform}: choose Local.{did_you_mean(name, [*_LOCAL, *_CLUSTERS])}")
