"""`--config FILE.yaml`: any file gives options of valid types, or an error that names the file."""

from __future__ import annotations

import click

from generic_trainer.cli.configuration import read_config, with_config
from generic_trainer.cli.train import train

from .target import answer, file_of

SEEDS = [
    b"train-files: [a/*, b/*]\noutput: out\ntimeout: 1.5\nisolate: false\n",
    b"custom-config: {epochs: 5, a: [1, ~]}\ntrain:\n  module: m.py\n  seed: 1\n",
    b"workers: 1:4\nrun:\n  label: x\n",
    b"? [a]\n: b\n",
    b"&a output: *a\n",
]
_COMMAND = with_config(train)


def check(data: bytes) -> None:
    """Reads the data as a configuration file of `generic-trainer train`, and casts its values to the options' types."""
    path = file_of(data, "config.yaml")
    context = click.Context(_COMMAND, info_name="train", parent=click.Context(click.Group("generic-trainer")))
    found = answer(lambda: read_config(path, context), path)
    for name, value in (found or {}).items():
        parameter = next(parameter for parameter in _COMMAND.params if parameter.name == name)
        parameter.type_cast_value(context, value)
