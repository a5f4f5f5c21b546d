"""The click type of arguments that name a run: in shell completion, the known runs and directories."""

from __future__ import annotations

import os
from collections.abc import Iterator

import click
from absl import logging
from click.shell_completion import CompletionItem

from ..executors.errors import InputError
from ..pipelines.history.runs import LAST, Run, find_runs
from .history_flags import pop_locations

_ID_LENGTH = 8  # characters of an id, as in `runs`


class RunName(click.types.StringParamType):
    """`last`, a run id or a prefix of one, the name of a pipeline run, or a directory."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Returns the runs in the places of the command line whose name begins with the text, and directories."""
        names = [
            CompletionItem(name, help=text) for name, text in _names(ctx, incomplete) if name.startswith(incomplete)
        ]
        return [CompletionItem(incomplete, type="dir"), *names]


def _names(context: click.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    logging.set_verbosity(logging.ERROR)  # warnings would be printed into the command line
    yield LAST, "the newest run"
    if os.sep in incomplete:
        return
    try:
        found = find_runs(**pop_locations(dict(context.params)))
    except InputError:
        return
    length = max(_ID_LENGTH, len(incomplete))
    for run in found:
        yield run.id[:length], _description(run)
        if incomplete and run.pipeline_run:
            yield run.pipeline_run, _description(run)


def _description(run: Run) -> str:
    return f"{run.started[:16].replace('T', ' ')}, {run.status}, {os.path.basename(run.module)}"
