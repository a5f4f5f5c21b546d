"""Flags for the module's input (schema shapes, raw or transformed examples), for `check` and the pipeline commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

from ..pipelines.definition.options import SCHEMA_SHAPES, TRAIN_EXAMPLES

Command = TypeVar("Command", bound=Callable[..., object])


def input_flags(command: Command) -> Command:
    """Adds --train-examples and --schema-shapes to a command."""
    for flag in (
        click.option(
            "--schema-shapes",
            type=click.Choice(SCHEMA_SHAPES),
            default="auto",
            show_default=True,
            help="Infer the schema with shapes (dense tensors) or without (sparse tensors); auto follows the check.",
        ),
        click.option(
            "--train-examples",
            type=click.Choice(TRAIN_EXAMPLES),
            default="auto",
            show_default=True,
            help="Examples that the Trainer reads after a Transform; auto follows the check, else transformed.",
        ),
    ):
        command = flag(command)
    return command
