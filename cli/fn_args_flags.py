"""Flags for the fields of `FnArgs`, of the commands that run a module on files of examples."""

from __future__ import annotations

from typing import Any

import click

from ..executors.errors import InputError
from ..executors.examples_format import TF_EXAMPLE, ExamplesFormat, payload_formats
from ..executors.fn_args import FnArgs
from ..executors.inputs.input_format import formats, payload_format_of
from ..executors.number_range import STEPS
from ..executors.runtime.files import file_io
from .number_type import NumberType
from .path_type import DIR, FILE, GLOB
from .training_flags import Command, adding


def fn_args_flags(command: Command) -> Command:
    """Adds the flags to a command; `fn_args_of` reads their values, except for base model and hyperparameters."""
    tables = [form for form in formats().values() if form.payloads and TF_EXAMPLE not in form.payloads]
    defaults = ", ".join(f"{form.payloads[0]} for *{form.endings[0]}" for form in tables if form.endings)
    return adding(
        click.option(
            "--train-files",
            multiple=True,
            type=GLOB,
            help="Training data, fn_args.train_files: patterns of example files, or any file or folder that the module "
            "reads; may be repeated.",
        ),
        click.option("--eval-files", multiple=True, type=GLOB, help="Evaluation data, as --train-files."),
        click.option(
            "--train-steps",
            type=NumberType(STEPS),
            help="Training steps, fn_args.train_steps (default: set by the module).",
        ),
        click.option(
            "--eval-steps",
            type=NumberType(STEPS),
            help="Evaluation steps, fn_args.eval_steps (default: set by the module).",
        ),
        click.option("--schema", type=FILE, help="Schema of the examples, in protobuf text format."),
        click.option("--transform-graph", type=DIR, help="The transform_graph output of a Transform component."),
        click.option(
            "--base-model", type=DIR, help="Model to start from: a SavedModel, or the --output of an earlier run."
        ),
        click.option("--hyperparameters", type=FILE, help="JSON file with KerasTuner's configuration."),
        click.option(
            "--payload-format",
            type=click.Choice(payload_formats()),
            help=f"Encoding of the examples (default: {defaults}, else {TF_EXAMPLE}).",
        ),
        click.option("--data-view", type=DIR, help="DataView that decodes FORMAT_PROTO examples."),
        click.option("--function", help="Name of the function to run (default: chosen by the dialect)."),
    )(command)


def fn_args_of(flags: dict[str, Any], **values: Any) -> FnArgs:
    """Returns `FnArgs` with the values of the flags, and others.

    Raises:
      InputError: If there is no such DataView.
    """
    if (data_view := flags["data_view"]) and not file_io.isdir(data_view):
        raise InputError(f"--data-view {data_view}: there is no such folder.")
    return FnArgs(
        train_files=list(flags["train_files"]),
        eval_files=list(flags["eval_files"]),
        train_steps=flags["train_steps"] or None,
        eval_steps=flags["eval_steps"] or None,
        schema_path=flags["schema"],
        transform_graph_path=flags["transform_graph"],
        examples_format=ExamplesFormat(flags["payload_format"] or payload_format_of(flags["train_files"]), data_view),
        **values,
    )
