"""Flags for the format of the examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from ..executors.errors import InputError
from ..executors.examples_format import TF_EXAMPLE, ExamplesFormat, payload_formats
from ..executors.inputs.input_format import formats, payload_format_of
from ..executors.runtime.files import file_io
from .path_type import DIR
from .training_flags import Command


def format_flags(command: Command) -> Command:
    """Adds --payload-format and --data-view to a command."""
    data_view = click.option("--data-view", type=DIR, help="DataView that decodes FORMAT_PROTO examples.")
    tables = [form for form in formats().values() if form.payloads and TF_EXAMPLE not in form.payloads]
    defaults = ", ".join(f"{form.payloads[0]} for *{form.endings[0]}" for form in tables if form.endings)
    payload = click.option(
        "--payload-format",
        type=click.Choice(payload_formats()),
        help=f"Encoding of the examples (default: {defaults}, else {TF_EXAMPLE}).",
    )
    return payload(data_view(command))


def examples_format(flags: dict[str, Any], patterns: Sequence[str]) -> ExamplesFormat:
    """Returns the format that the flags set, or that the names of the training files stand for.

    Raises:
      InputError: If there is no such DataView.
    """
    if (data_view := flags["data_view"]) and not file_io.isdir(data_view):
        raise InputError(f"--data-view {data_view}: there is no such folder.")
    return ExamplesFormat(flags["payload_format"] or payload_format_of(patterns), data_view)
