"""ElasticDL's commands for container images, `zoo init|build|push` and `clean`: errors that name the replacement."""

from __future__ import annotations

from typing import NoReturn

import click

from ....errors import InputError
from .flags import IMAGE

_ANY = {"ignore_unknown_options": True, "help_option_names": []}


@click.command(hidden=True, context_settings=_ANY)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def zoo(command: tuple[str, ...]) -> NoReturn:
    """Refuses `zoo init`, `zoo build` and `zoo push`."""
    step = next((word for word in command if not word.startswith("-")), "")
    _refuse(f"zoo {step}".strip())


@click.command(hidden=True, context_settings=_ANY)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def clean(command: tuple[str, ...]) -> NoReturn:
    """Refuses `clean`, which removed images in the first release."""
    del command
    _refuse("clean")


def _refuse(name: str) -> NoReturn:
    raise InputError(f"elasticdl {name}: there are no images to manage: {IMAGE}.")
