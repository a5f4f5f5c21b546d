"""Flags for `PodSettings`, shared by `submit` and `compile`."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import click

from ..executors.errors import InputError
from ..executors.number_range import GIGABYTES, USERS
from ..pipelines.submit.pods import (
    PULL_POLICIES,
    PodSettings,
    SecretEnv,
    Toleration,
    Volume,
    parse_pairs,
    parse_variables,
    read_patch,
)
from ..pipelines.submit.secrets import require_no_secrets
from .number_type import NumberType
from .path_type import FILE

Command = TypeVar("Command", bound=Callable[..., object])

_REPEATED: dict[str, Any] = {"multiple": True}
_TEXT: dict[str, Any] = {"default": ""}
# Parameter: (flag, settings of the option).
_FLAGS: dict[str, tuple[str, dict[str, Any]]] = {
    "volumes": (
        "--volume", {**_REPEATED, "metavar": "CLAIM:/FOLDER[:ro]", "help": "Kubernetes: volume claim to mount."}
    ),
    "labels": ("--job-label", {**_REPEATED, "metavar": "KEY=VALUE", "help": "Label of job and pods."}),
    "annotations": (
        "--job-annotation", {**_REPEATED, "metavar": "KEY=VALUE", "help": "Kubernetes: annotation of job and pods."}
    ),
    "queue": ("--queue", {**_TEXT, "metavar": "NAME", "help": "Kubernetes: Kueue's LocalQueue that admits the job."}),
    "env": ("--env", {**_REPEATED, "metavar": "NAME=VALUE", "help": "Environment variable."}),
    "env_secrets": (
        "--env-secret",
        {
            **_REPEATED,
            "metavar": "SECRET",
            "help": "Kubernetes: Secret for environment variables; NAME=SECRET/KEY for a single variable.",
        },
    ),
    "node_selector": (
        "--node-selector", {**_REPEATED, "metavar": "KEY=VALUE", "help": "Kubernetes: label that nodes must have."}
    ),
    "tolerations": (
        "--toleration", {**_REPEATED, "metavar": "KEY[=VALUE][:EFFECT]", "help": "Kubernetes: tolerated taint."}
    ),
    "pull_policy": (
        "--image-pull-policy", {"type": click.Choice(PULL_POLICIES), "help": "Kubernetes: when the image is pulled."}
    ),
    "pull_secrets": (
        "--image-pull-secret",
        {**_REPEATED, "metavar": "SECRET", "help": "Kubernetes: credentials of the image's registry."},
    ),
    "priority_class": (
        "--priority-class", {**_TEXT, "metavar": "NAME", "help": "Kubernetes: PriorityClass of the pods."}
    ),
    "run_as_user": (
        "--run-as-user", {"type": NumberType(USERS), "metavar": "UID", "help": "Kubernetes: user id of all processes."}
    ),
    "fs_group": (
        "--fs-group", {"type": NumberType(USERS), "metavar": "GID", "help": "Kubernetes: group id of files on volumes."}
    ),
    "shm_gb": (
        "--shm-gb",
        {
            "type": NumberType(GIGABYTES),
            "help": "Kubernetes: size of /dev/shm in 10^9 bytes, part of the memory limit (default: 64 MiB).",
        },
    ),
    "pod_patch": (
        "--pod-patch",
        {**_TEXT, "type": FILE, "help": "Kubernetes: strategic merge patch of pod templates, applied last."},
    ),
}  # fmt: skip


def pod_flags(command: Command) -> Command:
    """Adds the flags to a command."""
    for name, (flag, settings) in reversed(_FLAGS.items()):
        command = click.option(flag, name, **settings)(command)
    return command


def require_only(flags: Mapping[str, Any], names: Collection[str], platform: str) -> None:
    """Raises InputError if a pod flag other than the named ones is given."""
    for name, (flag, _) in _FLAGS.items():
        if name not in names and flags[name] not in (None, "", ()):
            raise InputError(f"{flag}: requires Kubernetes; --to {platform} has no pods to set it for.")


def parse_env(texts: Sequence[str], not_secret: Sequence[str] = ()) -> dict[str, str]:
    """Parses NAME=VALUE texts of --env.

    Raises:
      InputError: When a text has another form or contains a secret.
    """
    variables = parse_variables(texts)
    require_no_secrets("--env", json.dumps(variables), not_secret)
    return variables


def split_steps(texts: Sequence[str]) -> tuple[dict[str, list[str]], tuple[str, ...]]:
    """Splits texts into those of single steps, written STEP:NAME=…, by step, and those of all steps."""
    by_step: dict[str, list[str]] = {}
    rest = []
    for text in texts:
        step, is_for_step, value = text.partition(":")
        if is_for_step and "=" not in step:
            by_step.setdefault(step, []).append(value)
        else:
            rest.append(text)
    return by_step, tuple(rest)


def pop_pod_settings(flags: dict[str, Any], not_secret: Sequence[str] = ()) -> PodSettings:
    """Removes the pod flags from a command's flags, and returns the settings.

    Raises:
      InputError: When a value is invalid, or --env contains a secret.
    """
    values = {name: flags.pop(name) for name in _FLAGS}
    return PodSettings(
        volumes=tuple(map(Volume.parse, values["volumes"])),
        labels=parse_pairs("--job-label", values["labels"], labels=True),
        annotations=parse_pairs("--job-annotation", values["annotations"]),
        queue=values["queue"],
        env=parse_env(values["env"], not_secret),
        env_secrets=tuple(map(SecretEnv.parse, values["env_secrets"])),
        node_selector=parse_pairs("--node-selector", values["node_selector"], labels=True),
        tolerations=tuple(map(Toleration.parse, values["tolerations"])),
        pull_policy=values["pull_policy"] or "",
        pull_secrets=values["pull_secrets"],
        priority_class=values["priority_class"],
        run_as_user=values["run_as_user"],
        fs_group=values["fs_group"],
        shm_gb=values["shm_gb"] or 0.0,
        patch=read_patch(values["pod_patch"]) if values["pod_patch"] else {},
    )
