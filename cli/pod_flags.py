"""Flags for `PodSettings`, shared by `submit` and `compile`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from ..pipelines.submit.pods import PodSettings, pull_secrets, read_patch, variables, volume_claims
from .path_type import FILE

Command = TypeVar("Command", bound=Callable[..., object])

_FLAGS = (
    click.option(
        "--volume",
        "volumes",
        multiple=True,
        metavar="CLAIM:/FOLDER[:ro]",
        help="Kubernetes: volume claim to mount.",
    ),
    click.option("--queue", default="", metavar="NAME", help="Kubernetes: Kueue's LocalQueue that admits the job."),
    click.option("--env", multiple=True, metavar="NAME=VALUE", help="Environment variable."),
    click.option(
        "--env-secret",
        "env_secrets",
        multiple=True,
        metavar="SECRET",
        help="Kubernetes: Secret for environment variables; NAME=SECRET/KEY for a single variable.",
    ),
    click.option(
        "--image-pull-secret",
        "pull_secrets",
        multiple=True,
        metavar="SECRET",
        help="Kubernetes: credentials of the image's registry.",
    ),
    click.option(
        "--pod-patch",
        default="",
        type=FILE,
        help="Kubernetes: strategic merge patch of pod templates, for all other fields; applied last.",
    ),
)


def pod_flags(command: Command) -> Command:
    """Adds the flags to a command."""
    for flag in reversed(_FLAGS):
        command = flag(command)
    return command


def pop_pod_settings(flags: dict[str, Any], not_secret: Sequence[str] = ()) -> PodSettings:
    """Removes the pod flags from a command's flags, and returns the settings.

    Raises:
      InputError: When a value is invalid, or --env contains a secret.
    """
    patches = (
        volume_claims(flags.pop("volumes")),
        variables(flags.pop("env"), flags.pop("env_secrets"), not_secret),
        pull_secrets(flags.pop("pull_secrets")),
    )
    queue, account, patch = flags.pop("queue"), flags.pop("service_account", ""), flags.pop("pod_patch")
    return PodSettings(tuple(filter(None, patches)), queue, account, read_patch(patch) if patch else {})
