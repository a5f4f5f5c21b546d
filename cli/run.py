"""`generic-trainer run`: a whole pipeline on this machine, from data to a pushed model."""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any

import click

from ..executors import keras_version
from ..executors.module_source import find_source
from .summary import print_summary
from .training_flags import custom_config_flag, options_from, parse_custom_config, training_flags


@click.command()
@click.option("--data", required=True, metavar="DIR", help="CSV files, or TFRecord files of tf.Examples.")
@click.option("--module-file", required=True, metavar="FILE", help="The training module.")
@click.option("--pipeline-root", default="pipeline", show_default=True, metavar="DIR", help="Where all outputs go.")
@click.option("--pipeline-name", "name", default="", help="Default: the module's name.")
@click.option("--runner", type=click.Choice(["beam", "local"]), default="beam", show_default=True, help="TFX's runner.")
@click.option("--train-steps", type=click.IntRange(0), default=0, help="Default: the module decides.")
@click.option("--eval-steps", type=click.IntRange(0), default=0, help="Default: the module decides.")
@click.option("--label", default="", help="The label's feature name, raw or transformed; needed to evaluate.")
@click.option(
    "--task",
    type=click.Choice(["auto", "binary", "multiclass", "regression"]),
    default="auto",
    show_default=True,
    help="Which metrics to evaluate; auto reads it off the module's loss.",
)
@click.option(
    "--slice-by", multiple=True, metavar="FEATURE", help="Evaluate for each value of a raw feature; may be repeated."
)
@click.option("--eval-config", default="", metavar="FILE", help="A tfma.EvalConfig in JSON, instead of --label.")
@click.option("--schema", default="", metavar="FILE", help="A Schema to use instead of an inferred one.")
@click.option("--metadata", default="", metavar="URL", help="SQLite file or mysql://user:password@host:port/database.")
@click.option("--push-to", default="", metavar="DIR", help="Where the model is pushed (default: serving/ in the root).")
@click.option("--warm-start", is_flag=True, help="Give the last blessed model to the module as fn_args.base_model.")
@click.option("--cache/--no-cache", default=True, show_default=True, help="Take unchanged steps from earlier runs.")
@click.option("--beam-arg", "beam_args", multiple=True, metavar="ARG", help="An argument for Beam; may be repeated.")
@custom_config_flag
@training_flags
def run(custom_config: str | None, **flags: Any) -> None:
    """Runs a pipeline: read, validate, transform, train, evaluate and push.

    \b
    Example:
      generic-trainer run --data taxi/ --module-file taxi_keras.py --label big_tip
    """  # noqa: D301 (click's mark of lines to keep)
    sys.path.insert(0, os.getcwd())
    training = options_from(flags)
    with tempfile.TemporaryDirectory(prefix="generic-trainer-") as scratch:
        source = find_source(flags["module_file"], scratch)
        # Transform loads the module in this process: its tf.keras has to be the module's from the start.
        os.environ.update(keras_version.choose(training.keras, source.files).environment())

    from ..pipelines.local import LocalPipeline, run_pipeline  # imports TensorFlow and TFX: seconds

    for repeated in ("beam_args", "slice_by"):
        flags[repeated] = tuple(flags[repeated])
    outcome = run_pipeline(LocalPipeline(custom_config=parse_custom_config(custom_config), training=training, **flags))
    if outcome.cached:
        click.echo(f"From the cache: {', '.join(outcome.cached)}")
    places = {
        "Pushed model": outcome.pushed_model,
        "Model": outcome.model,
        "TensorBoard": outcome.model_run,
        "Metadata": outcome.metadata,
    }
    print_summary(places, outcome.metrics)
    for name, metrics in outcome.slices.items():
        own = (f"{metric} {value:.4g}" for metric, value in metrics.items() if not metric.endswith("_diff"))
        click.echo(f"{name}: {', '.join(own)}")
    if outcome.blessed is False:
        click.echo("The model was not blessed: it missed the Evaluator's threshold, so it was not pushed.", err=True)
