"""Finds the call of DLRover's trainer in a container's command, which is often a line of bash code.

    line = "pip install pyhocon && cd /work && python -m dlrover.trainer --platform=Kubernetes --conf=conf.TrainConf"
    call = find_call(["/bin/bash", "-c", line], "worker")
    call.folder, call.flags        # "/work", {"platform": "Kubernetes", "conf": "conf.TrainConf"}

The line is parsed without running it or starting a shell.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
from collections.abc import Sequence

from ....errors import InputError

_SHELLS = ("bash", "sh", "dash", "zsh")
_PYTHON = re.compile(r"python[\d.]*")
_TRAINER = re.compile(r"dlrover\.trainer(\.entry\.local_entry)?")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_OPERATORS = set("();<>|&")


@dataclasses.dataclass
class TrainerCall:
    """A call of `python -m dlrover.trainer.entry.local_entry`.

    Attributes:
      folder: The folder that the line changes to before the call; "" if it does not.
      flags: The trainer's flags with their values as given; "" for a flag without a value.
      environment: Environment variables that the line sets.
      others: The line's other commands.
    """

    folder: str = ""
    flags: dict[str, str] = dataclasses.field(default_factory=dict)
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    others: list[str] = dataclasses.field(default_factory=list)


def find_call(command: Sequence[str], where: str) -> TrainerCall:
    """Finds the call of DLRover's trainer.

    Args:
      command: The container's `command` followed by its `args`.
      where: Location of the command, for error messages.

    Raises:
      InputError: When there is no call, or its values need expansion by a shell ("$" or "`").
    """
    call, has_call = TrainerCall(), False
    for words in _simple_commands(command, where):
        while words and (assignment := _ASSIGNMENT.fullmatch(words[0])):
            call.environment[assignment[1]] = assignment[2]
            words = words[1:]
        if not words:
            continue
        if words[0] == "export" and all(_ASSIGNMENT.fullmatch(word) for word in words[1:]):
            call.environment.update({name: value for name, _, value in (word.partition("=") for word in words[1:])})
        elif words[0] == "cd" and len(words) == 2 and not has_call:
            call.folder = os.path.join(call.folder, words[1])
        elif _is_trainer(words) and not has_call:
            call.flags, has_call = _flags(words[3:], where), True
        else:
            call.others.append(shlex.join(words))
    if not has_call:
        raise InputError(
            f"{where}: its command does not run DLRover's TensorFlow trainer (python -m "
            f"dlrover.trainer.entry.local_entry --conf=…) but {'; '.join(call.others) or 'nothing'}. Pass a command "
            "line of generic-trainer instead of --from."
        )
    for text in (call.folder, *call.flags.values(), *call.environment.values()):
        if "$" in text or "`" in text:
            raise InputError(f"{where}: {text!r} requires shell expansion. Replace it by its value.")
    return call


def _is_trainer(words: Sequence[str]) -> bool:
    return (
        len(words) > 2
        and _PYTHON.fullmatch(os.path.basename(words[0])) is not None
        and words[1] == "-m"
        and _TRAINER.fullmatch(words[2]) is not None
    )


def _simple_commands(command: Sequence[str], where: str) -> list[list[str]]:
    """Splits a container's command into simple commands; one of `bash -c` and the like at shell operators."""
    if len(command) < 2 or os.path.basename(command[0]) not in _SHELLS:
        return [list(command)]
    flags = [place for place, word in enumerate(command[1:], 1) if word.startswith("-") and "c" in word]
    if not flags or flags[0] + 1 >= len(command):
        return [list(command)]
    line = command[flags[0] + 1]
    lexer = shlex.shlex(line.replace("\\\n", " ").replace("\n", " ; "), posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    commands: list[list[str]] = [[]]
    try:
        for word in lexer:
            if set(word) <= _OPERATORS:
                commands.append([])
            else:
                commands[-1].append(word)
    except ValueError as error:
        raise InputError(f"{where}: its command is not a valid shell command ({error}): {line!r}") from error
    return [words for words in commands if words]


def _flags(words: Sequence[str], where: str) -> dict[str, str]:
    flags: dict[str, str] = {}
    name = ""
    for word in words:
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            flags[name] = value
        elif name and not flags[name]:
            flags[name] = word
        else:
            raise InputError(f"{where}: DLRover's trainer does not accept {word!r}.")
    return flags
