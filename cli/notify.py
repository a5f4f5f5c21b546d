"""`--notify URL|COMMAND`: tells somebody that a command has ended, and how.

    generic-trainer train … --notify https://chat.example.com/hooks/123 --notify 'notify-send Training'

A URL gets a POST request with a JSON object: `text`, a sentence for people, and `command`, `status` ("succeeded",
"failed" or "interrupted"), `seconds`, `host`, `error`, `model`, `model_run` and `metrics`. A command, run without a
shell, gets the sentence as its last argument and the object as its input. What goes wrong with it is a warning: the
command's own outcome stays what it is.
"""

from __future__ import annotations

import functools
import json
import shlex
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click

from ..executors.distributed.tf_config import task_from_environment
from ..executors.errors import InputError
from ..executors.monitoring.display import duration
from ..executors.monitoring.run_record import FAILED, INTERRUPTED, SUCCEEDED, status_after
from ..executors.runtime.logs.exceptions import message_of
from ..executors.runtime.logs.redaction import masked_text

Command = TypeVar("Command", bound=Callable[..., Any])
_SECONDS = 30.0
_METRICS = 5  # in the sentence


def notify_flag(command: Command) -> Command:
    """Adds --notify to a command, which returns what there is to tell: {"model": …, "model_run": …, "metrics": …}."""

    @click.option(
        "--notify", multiple=True, metavar="URL|COMMAND",
        help="Whom to tell when it has ended: a webhook, or a command; may be repeated.",
    )  # fmt: skip
    @functools.wraps(command)
    def run(*, notify: tuple[str, ...], **flags: Any) -> None:
        ways = [_way(one) for one in notify]
        begin = time.monotonic()
        outcome: dict[str, Any] = {"status": FAILED, "error": None}
        try:
            outcome |= command(**flags) or {}
            outcome["status"] = SUCCEEDED
        except (KeyboardInterrupt, SystemExit):
            outcome["status"] = INTERRUPTED
            raise
        except BaseException as error:
            outcome["status"] = status_after(error)
            outcome["error"] = masked_text(f"{type(error).__name__}: {message_of(error)}")
            raise
        finally:
            task = task_from_environment()
            if ways and (task is None or task.is_chief):
                told = _told(outcome, time.monotonic() - begin)
                for way in ways:
                    way(told)

    return run  # type: ignore[return-value]


def _told(outcome: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    context = click.get_current_context()
    subject = context.params.get("module") or context.params.get("module_file") or ""
    name = f"{context.command_path} {subject}".rstrip()
    text = f"{name} {outcome['status']} after {duration(seconds)} on {socket.gethostname()}"
    metrics = outcome.get("metrics", {})
    values = metrics.get("eval") or metrics.get("train") or {}
    reason = outcome["error"] or ", ".join(f"{key} {value:.4g}" for key, value in list(values.items())[:_METRICS])
    return {
        "text": f"{text}: {reason}" if reason else f"{text}.",
        "command": name,
        "seconds": round(seconds, 1),
        "host": socket.gethostname(),
        **outcome,
    }


def _way(place: str) -> Callable[[Mapping[str, Any]], None]:
    """Returns what tells it.

    Raises:
      InputError: When it is neither a URL nor a command.
    """
    if "://" in place.partition(" ")[0]:
        if urlsplit(place).scheme not in ("http", "https"):
            raise InputError(f"--notify {_shown(place)}: give an address with http or https, or a command.")
        return functools.partial(_post, place)
    try:
        words = shlex.split(place)
    except ValueError as error:
        raise InputError(f"--notify {place!r} is no command: {error}.") from error
    if not words:
        raise InputError("--notify is empty: give a webhook's address, or a command.")
    return functools.partial(_call, words)


def _post(url: str, told: Mapping[str, Any]) -> None:
    data = json.dumps(told, default=str).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})  # noqa: S310 (http or https)
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS):  # noqa: S310  # nosec B310
            pass
    except (OSError, urllib.error.URLError) as error:
        click.echo(f"--notify {_shown(url)} was not told: {error}.", err=True)


def _call(words: Sequence[str], told: Mapping[str, Any]) -> None:
    try:
        done = subprocess.run(
            [*words, told["text"]], input=json.dumps(told, default=str), text=True, check=False, timeout=_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        click.echo(f"--notify {words[0]} was not told: {error}.", err=True)
        return
    if done.returncode:
        click.echo(f"--notify {words[0]} ended with status {done.returncode}.", err=True)


def _shown(url: str) -> str:
    """Returns an address without its path, which is often a secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}"
