"""The help of a command with many options in panels: by subject, after the options of most runs."""

from __future__ import annotations

import functools

import click

from ..executors.option import CLUSTER, DATA, MODEL, MODULE, PROCESS, TRAINING
from ..executors.options import declared_options

_COMMON = "Options"
# Options that `executors/option.py` does not declare; those in no panel are common.
_PANELS: dict[str, tuple[str, ...]] = {
    DATA: (
        *("--schema", "--schema-shapes", "--train-examples", "--transform-graph", "--test-split"),
        *("--payload-format", "--data-view"),
    ),
    MODULE: ("--function", "--transform-module", "--tuner-module"),
    TRAINING: ("--base-model", "--warm-start", "--hyperparameters", "--tune", "--tune-steps"),
    "The evaluation": ("--scores", "--eval-signature", "--eval-output", "--eval-config", "--slice-by"),
    "Pushing the model": ("--push", "--push-to", "--baseline-model", "--allow-trivial", "--allow-batch-dependent"),
    MODEL: (),
    "The pipeline": ("--pipeline-name", "--runner", "--cache", "--beam-arg", "--metadata"),
    PROCESS: (),
    CLUSTER: ("--cluster",),
    "The pods": ("--image-pull-secret", "--pod-patch", "--env", "--env-secret", "--volume", "--queue"),
}
_MANY = 20  # options of a command, of which fewer are not divided
_TERM_WIDTH = 30  # characters of an option with its placeholder; the text of a longer one is on the next line


def with_panels(command: click.Command) -> click.Command:
    """Formats the help of a command, or of those of a group, in panels."""
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            with_panels(inner)
    else:
        command.format_options = functools.partial(_format_options, command)  # type: ignore[method-assign]
    return command


def _format_options(command: click.Command, context: click.Context, formatter: click.HelpFormatter) -> None:
    titles = {option.name: option.group for option in declared_options()}
    titles |= {flag: title for title, flags in _PANELS.items() for flag in flags}
    if len(command.params) < _MANY:
        titles = {}
    panels: dict[str, list[tuple[str, str]]] = {title: [] for title in (_COMMON, *_PANELS)}
    for option in command.get_params(context):
        record = option.get_help_record(context)
        if record and isinstance(option, click.Option):
            title = titles.get(str(option.name)) or titles.get(option.opts[-1], _COMMON)
            panels.setdefault(title, []).append((f"{record[0]:<{_TERM_WIDTH}}", record[1]))  # one column for all
    for title, records in panels.items():
        if records:
            with formatter.section(title):
                formatter.write_dl(records, _TERM_WIDTH)
