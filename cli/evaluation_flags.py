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
        help="The label's feature name, raw or transformed; needed to evaluate. Of a model with several outputs: "
        "OUTPUT=FEATURE,OUTPUT=FEATURE.",
    ),
    click.option(
        "--task",
        type=click.Choice(["auto", *TASKS]),
        default="auto",
        show_default=True,
        help="Which metrics to evaluate; auto decides by the model's loss, outputs and labels.",
    ),
    click.option(
        "--scores",
        type=click.Choice(["auto", *SCORES]),
        default="auto",
        show_default=True,
        help="What the model answers with: logits and margins are turned into probabilities first.",
    ),
    click.option("--eval-signature", default="", metavar="NAME", help="The signature to evaluate (default: serving)."),
    click.option("--eval-output", default="", metavar="NAME", help="The signature's output to evaluate."),
)


def evaluation_flags(command: Command) -> Command:
    """Adds the flags to a command; `executors.evaluation.overrides.overrides_of` reads their values."""
    for flag in reversed(_FLAGS):
        command = flag(command)
    return command
