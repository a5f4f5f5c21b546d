"""The command line of this process, to show to its user."""

from __future__ import annotations

import os
import shlex
import sys

_PROGRAM, _MODULE = "generic-trainer", "generic_trainer.cli.main"


def own_command() -> str:
    """Returns the command to run this process again if it is the command `generic-trainer`; otherwise ""."""
    words = sys.orig_argv
    for number, word in enumerate(words):
        if os.path.basename(word) == _PROGRAM:
            return shlex.join(words[number:])
    return shlex.join(words) if _MODULE in words else ""
