"""Flags for the evaluation plan, shared by the commands that make one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

from ..executors.evaluation.plan import SCORES, TASKS

Command = TypeVar("Command", bound=Callable[..., object])

_FLAGS = (
    click.option(
        "--label",
        default="",
        metavar="FEATURE",
        help="Feature name of the label, raw or transformed; required for evaluation. For several outputs: "
        "OUTPUT=FEATURE,OUTPUT=FEATURE.",
    ),
    click.option(
        "--task",
        type=click.Choice(["auto", *TASKS]),
        default="auto",
        show_default=True,
        help="Task that selects the metrics; auto derives it from the model's loss, outputs and labels.",
    ),
    click.option(
        "--scores",
        type=click.Choice(["auto", *SCORES]),
        default="auto",
        show_default=True,
        help="Kind of model output; logits and margins are converted to probabilities.",
    ),
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


def evaluation_flags(command: Command) -> Command:
    """Adds the flags to a command; `executors.evaluation.overrides.overrides_of` reads their values."""
    for flag in reversed(_FLAGS):
        command = flag(command)
    return command
