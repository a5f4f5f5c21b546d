"""`generic-trainer train MODULE`: runs the trainer step without a pipeline or a metadata store."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from ..executors.monitoring.run_record import RunRecord
from ..executors.runtime.files.artifact_files import read_hyperparameters
from ..executors.runtime.files.artifact_layout import latest
from ..executors.saved_models.base_model import base_model_path
from ..executors.training.run import train as run_training
from .cluster_flag import local_cluster, parse_counts
from .fn_args_flags import fn_args_flags, fn_args_of
from .path_type import DIR, MODULE_NAME
from .submitted_command import JobCommand, Submittable
from .summary import json_flag
from .terminal import quiet_flag
from .training_flags import custom_config_flag, options_from, parse_custom_config, training_flags
from .training_run import OnStart, on_start, output_folders, run_and_summarize


@click.command(cls=JobCommand, submittable=Submittable("module"))
@click.argument("module", type=MODULE_NAME)
@fn_args_flags
@click.option("--output", required=True, type=DIR, help="Output directory of model/ and model_run/.")
@click.option(
    "--cluster", metavar="ROLES", help="Train on a cluster of local processes: chief=1,worker=2,ps=1,evaluator=1."
)
@custom_config_flag
@json_flag
@quiet_flag
@training_flags
def train(
    module: str, output: str, function: str | None, custom_config: str | None, as_json: bool, **flags: Any
) -> None:
    """Trains MODULE and checks the model that it writes.

    MODULE is a file, package.module, package.module.function, or name@archive.zip.

    \b
    Example:
      generic-trainer train iris_keras.py --train-files 'iris/train*' --eval-files 'iris/eval*' \\
          --train-steps 300 --output out

    With --output DIR, the model is written to DIR/model/Format-Serving, the logs and run record to DIR/model_run.

    In paths of pipeline outputs, `latest` stands for the newest subdirectory: Transform/transform_graph/latest.

    On a platform that sets TF_CONFIG, each process runs the same command; the chief publishes the model.

    With --json an object with: model, model_run, report, metrics, metrics_of, hyperparameters, cluster, bad_records,
    not_checked.
    """  # noqa: D301 (click's mark of lines to keep)
    sys.path.insert(0, os.getcwd())  # as `python -m package.module` does
    options = options_from(flags)
    for name in ("train_files", "eval_files"):
        flags[name] = [latest(pattern) for pattern in flags[name]]
    graph, base, hyperparameters = (flags[name] for name in ("transform_graph", "base_model", "hyperparameters"))
    flags["transform_graph"] = latest(graph) if graph else None
    fn_args = fn_args_of(
        flags,
        **output_folders(output),
        base_model=base_model_path(base) if base else None,
        hyperparameters=read_hyperparameters(hyperparameters, "--hyperparameters") if hyperparameters else None,
        custom_config=parse_custom_config(custom_config),
        seed=options.seed,
    )
    counts = parse_counts(flags["cluster"]) if flags["cluster"] else None
    start = on_start(fn_args.model_run_dir, (module, *fn_args.train_files, *fn_args.eval_files))

    def run() -> RunRecord:
        if counts:
            return local_cluster()(counts, module, fn_args, options, function=function, on_start=start)
        return run_training(module, fn_args, options, function=function, callbacks=[OnStart(start)])

    run_and_summarize(fn_args, run, as_json=as_json, starts_cluster=bool(counts))
