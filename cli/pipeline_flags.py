"""Flags for `PipelineOptions`, shared by the commands that create pipelines and by `check`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, cast

import click

from ..executors.evaluation.plan import SCORES, TASKS
from ..executors.number_range import PIPELINE_STEPS
from ..pipelines.definition.options import SCHEMA_SHAPES, TRAIN_EXAMPLES, PipelineKeywords
from ..pipelines.definition.pipeline_root import OTHER_ROOT, ROOT, default_root
from .number_type import NumberType
from .path_type import DIR, FILE, MODULE_FILE, PLACE
from .training_flags import adding, custom_config_flag, options_from, parse_custom_config, training_flags

_STEPS = NumberType(PIPELINE_STEPS)


def _choice(flag: str, choices: Sequence[str], text: str) -> Callable[[Any], Any]:
    return click.option(flag, type=click.Choice(choices), default=choices[0], show_default=True, help=text)


module_flags = adding(
    click.option(
        "--transform-module",
        default="",
        type=MODULE_FILE,
        help="Module with preprocessing_fn (default: the training module, or a file near it).",
    ),
    click.option(
        "--tuner-module", default="", type=MODULE_FILE, help="Module with tuner_fn (default: the training module)."
    ),
)
# `executors.evaluation.overrides.overrides_of` reads their values.
evaluation_flags = adding(
    click.option(
        "--label",
        default="",
        metavar="FEATURE",
        help="Feature name of the label, raw or transformed; required for evaluation. For several outputs: "
        "OUTPUT=FEATURE,OUTPUT=FEATURE.",
    ),
    _choice(
        "--task",
        ["auto", *TASKS],
        "Task that selects the metrics; auto derives it from the model's loss, outputs and labels.",
    ),
    _choice("--scores", ["auto", *SCORES], "Kind of model output; logits and margins are converted to probabilities."),
    click.option(
        "--eval-signature", default="", metavar="NAME", help="Signature to evaluate (default: the serving signature)."
    ),
    click.option(
        "--eval-output",
        default="",
        metavar="NAME",
        help="Output to evaluate (default: all with a label, or the main one).",
    ),
)
input_flags = adding(
    _choice(
        "--train-examples",
        TRAIN_EXAMPLES,
        "Examples that the Trainer reads after a Transform; auto follows the check, else transformed.",
    ),
    _choice(
        "--schema-shapes",
        SCHEMA_SHAPES,
        "Infer the schema with shapes (dense tensors) or without (sparse tensors); auto follows the check.",
    ),
)
pipeline_flags = adding(
    click.option("--data", required=True, type=PLACE, help="CSV files, or TFRecord files of tf.Examples."),
    click.option(
        "--module-file",
        required=True,
        type=MODULE_FILE,
        help="Training module: a file, package.module, or name@archive.zip.",
    ),
    module_flags,
    click.option(
        "--pipeline-root",
        default=default_root,
        type=DIR,
        help=f"Directory for all outputs (default: {ROOT}, or {OTHER_ROOT} if {ROOT} has files of yours).",
    ),
    click.option("--pipeline-name", "name", default="", help="Pipeline name (default: the module's name)."),
    click.option("--train-steps", type=_STEPS, default=0, help="Training steps (default: set by the module)."),
    click.option("--eval-steps", type=_STEPS, default=0, help="Evaluation steps (default: set by the module)."),
    evaluation_flags,
    input_flags,
    click.option(
        "--slice-by",
        multiple=True,
        metavar="FEATURE",
        help="Also evaluate per value of this raw feature; may be repeated.",
    ),
    click.option(
        "--eval-config",
        default="",
        type=FILE,
        help="JSON file with a tfma.EvalConfig; replaces --label, --task and --slice-by.",
    ),
    click.option(
        "--allow-trivial",
        is_flag=True,
        help="Also push a model that is no better than a trivial one, such as the mean of the labels.",
    ),
    click.option(
        "--test-split",
        is_flag=True,
        help="Evaluate on a fifth of the data that training does not see (default: if the data have a folder test/).",
    ),
    click.option("--schema", default="", type=FILE, help="Schema file to use instead of an inferred schema."),
    click.option("--push-to", default="", type=DIR, help="Push destination (default: serving/ in the pipeline root)."),
    click.option("--push/--no-push", default=True, show_default=True, help="Push the model if it is blessed."),
    click.option(
        "--allow-batch-dependent",
        is_flag=True,
        help="Push the model even if its answer for an example depends on the others of its batch.",
    ),
    click.option("--warm-start", is_flag=True, help="Pass the baseline model to the module as fn_args.base_model."),
    click.option(
        "--baseline-model",
        default="",
        type=DIR,
        help="Model artifact to compare with (default: the last blessed model).",
    ),
    click.option(
        "--tune/--no-tune",
        default=None,
        help="Tune hyperparameters before training (default: if the tuner module has a tuner_fn).",
    ),
    click.option("--tune-steps", type=_STEPS, default=0, help="Training steps per trial (default: --train-steps)."),
    click.option(
        "--hyperparameters",
        default="",
        type=FILE,
        help="JSON file with KerasTuner's configuration, or a Tuner's output; replaces tuning.",
    ),
    click.option(
        "--cache/--no-cache",
        default=True,
        show_default=True,
        help="Reuse the outputs of unchanged steps from earlier runs.",
    ),
    click.option(
        "--beam-arg", "beam_args", multiple=True, metavar="ARG", help="Additional Beam argument; may be repeated."
    ),
    custom_config_flag,
    training_flags,
)


def pipeline_options(flags: dict[str, Any]) -> PipelineKeywords:
    """Converts a command's flags to arguments of `PipelineOptions`; adds the current folder to the import path."""
    sys.path.insert(0, os.getcwd())
    training, custom_config = options_from(flags), parse_custom_config(flags.pop("custom_config"))
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in flags.items()}
    return cast("PipelineKeywords", {**values, "custom_config": custom_config, "training": training})
