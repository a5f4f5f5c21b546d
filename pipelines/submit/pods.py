"""Pod settings that clusters require, and their place in pod templates.

    settings = PodSettings(queue="ml", volumes=(Volume.parse("data:/data"),), patch=read_patch("pod.yaml"))
    settings.apply(template, "ray-worker")

A patch of the user is applied last, so it can change everything. Only there `$(NAME)` is a reference to a variable.
"""

from __future__ import annotations

import dataclasses
import posixpath
from collections.abc import Iterable, Mapping
from typing import Any

from ...executors.errors import InputError, did_you_mean
from ...executors.runtime.files.plain_yaml import yaml_documents
from .expansion import environment
from .names import QUEUE, SECRET_KEY, SUBDOMAIN, VARIABLE, require_unique
from .strategic_merge import DIRECTIVE, merged

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"


@dataclasses.dataclass(frozen=True)
class Volume:
    """A persistent volume claim that is mounted in all pods.

    Attributes:
      claim: The claim's name.
      path: The absolute mount path.
      read_only: Whether it is mounted read-only.
    """

    claim: str
    path: str
    read_only: bool = False

    @classmethod
    def parse(cls, text: str) -> Volume:
        """Parses CLAIM:/FOLDER or CLAIM:/FOLDER:ro.

        Raises:
          InputError: When the text has another form.
        """
        claim, _, place = text.partition(":")
        path, _, mode = place.partition(":")
        path = posixpath.normpath(path)
        is_path = path.startswith("/") and path.strip("/") and path.isprintable()
        if not SUBDOMAIN.allows(claim) or not is_path or mode not in ("", "ro"):
            raise InputError(
                f"--volume {text}: expected CLAIM:/FOLDER or CLAIM:/FOLDER:ro, such as training-data:/data."
            )
        return cls(claim, path, bool(mode))


@dataclasses.dataclass(frozen=True)
class SecretEnv:
    """Environment variables from a Kubernetes Secret.

    Attributes:
      secret: The Secret's name.
      name: The variable to set; "" for one variable per entry of the Secret.
      key: The Secret's entry for `name`.
    """

    secret: str
    name: str = ""
    key: str = ""

    @classmethod
    def parse(cls, text: str) -> SecretEnv:
        """Parses SECRET, or NAME=SECRET/KEY for a single variable.

        Raises:
          InputError: When the text has another form.
        """
        name, has_name, rest = text.rpartition("=")
        secret, has_key, key = rest.partition("/")
        if (
            not SUBDOMAIN.allows(secret)
            or bool(has_name) != bool(has_key)
            or (has_name and not (VARIABLE.allows(name) and SECRET_KEY.allows(key)))
        ):
            raise InputError(f"--env-secret {text}: expected SECRET, or NAME=SECRET/KEY for a single variable.")
        return cls(secret, name, key)


@dataclasses.dataclass(frozen=True)
class PodSettings:
    """Settings of a job's pods. Empty values keep the cluster's defaults.

    Attributes:
      volumes: Persistent volume claims to mount.
      queue: Name of the Kueue LocalQueue that admits the job.
      service_account: Name of the pods' ServiceAccount.
      env: Environment variables.
      env_secrets: Environment variables from Secrets.
      pull_secrets: Names of Secrets with credentials of the image's registry.
      patch: A strategic merge patch of the pod template, applied last. A container without a name is the job's. The
        job itself also gets its labels and annotations.

    Raises:
      InputError: From the constructor, when Kubernetes does not allow a name, or a name occurs twice.
    """

    volumes: tuple[Volume, ...] = ()
    queue: str = ""
    service_account: str = ""
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)
    env_secrets: tuple[SecretEnv, ...] = ()
    pull_secrets: tuple[str, ...] = ()
    patch: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        QUEUE.require(self.queue, "--queue")
        SUBDOMAIN.require(self.service_account, "--service-account")
        for name in self.pull_secrets:
            SUBDOMAIN.require(name, "--image-pull-secret")
        require_unique(self.pull_secrets, "--image-pull-secret")
        require_unique([volume.path for volume in self.volumes], "--volume")
        variables = [*self.env, *(secret.name for secret in self.env_secrets if secret.name)]
        require_unique(variables, "--env and --env-secret")

    @property
    def job_metadata(self) -> dict[str, Any]:
        """Labels and annotations of the job itself; {} if there are none."""
        metadata = self.patch.get("metadata") or {}
        given = merged({}, {name: metadata[name] for name in ("labels", "annotations") if name in metadata})
        return dict(merged(given, {"labels": {QUEUE_LABEL: self.queue}} if self.queue else {}))

    def apply(self, template: Mapping[str, object], container: str) -> dict[str, Any]:
        """Returns a pod template with these settings.

        Args:
          template: The template; it has a container with the name.
          container: Name of the container that runs the job.

        Raises:
          InputError: When the patch does not fit the template.
        """
        result = merged(template, self._as_patch(container))
        if secrets := [{"secretRef": {"name": secret.secret}} for secret in self.env_secrets if not secret.name]:
            # The list has no merge key, so a patch would replace that of the template.
            main = next(item for item in result["spec"]["containers"] if item["name"] == container)
            main["envFrom"] = [*main.get("envFrom", []), *secrets]
        return dict(merged(result, _named(self.patch, container)))

    def _as_patch(self, container: str) -> dict[str, Any]:
        claims = [_claim(number, volume) for number, volume in enumerate(self.volumes)]
        variables = [
            {"name": secret.name, "valueFrom": {"secretKeyRef": {"name": secret.secret, "key": secret.key}}}
            for secret in self.env_secrets
            if secret.name
        ]
        main = {"env": [*environment(self.env), *variables], "volumeMounts": [mount for _, mount in claims]}
        spec = {
            "containers": [{"name": container, **_present(main)}],
            "volumes": [volume for volume, _ in claims],
            "serviceAccountName": self.service_account,
            "imagePullSecrets": [{"name": name} for name in self.pull_secrets],
        }
        return {"spec": _present(spec)}


def read_patch(path: str) -> dict[str, Any]:
    """Reads a strategic merge patch of a pod template from a YAML or JSON file.

    The file has `metadata` and `spec` like a pod template; of a whole Pod or PodTemplate, these parts are taken.

    Raises:
      InputError: When there is no such file, or it has another form.
    """
    flag = f"--pod-patch {path}"
    documents = yaml_documents(path, "--pod-patch")
    document = documents[0] if len(documents) == 1 else None
    if isinstance(document, dict) and document.get("kind") == "PodTemplate":
        document = document.get("template")
    elif isinstance(document, dict) and document.get("kind") == "Pod":
        document = {name: part for name, part in document.items() if name not in ("apiVersion", "kind", "status")}
    if not isinstance(document, dict) or not document:
        raise InputError(f"{flag}: expected an object with metadata or spec, like a pod template.")
    for name, part in document.items():
        if name not in ("metadata", "spec"):
            raise InputError(
                f"{flag}: a pod template has metadata and spec, not {name!r}.{did_you_mean(name, ('metadata', 'spec'))}"
            )
        if not isinstance(part, dict):
            raise InputError(f"{flag}: {name} must be an object, not {part!r}.")
    return document


def parse_variables(texts: Iterable[str]) -> dict[str, str]:
    """Parses `NAME=VALUE` texts of --env.

    Raises:
      InputError: When a text has another form, or a name occurs twice.
    """
    pairs = [text.partition("=") for text in texts]
    for name, mark, value in pairs:
        if not mark or not VARIABLE.allows(name):
            raise InputError(f"--env {name + mark + value}: expected NAME=VALUE.")
    require_unique([name for name, _, _ in pairs], "--env")
    return {name: value for name, _, value in pairs}


def _claim(number: int, volume: Volume) -> tuple[dict[str, object], dict[str, object]]:
    read_only = {"readOnly": True} if volume.read_only else {}
    name = f"claim-{number}"
    return (
        {"name": name, "persistentVolumeClaim": {"claimName": volume.claim, **read_only}},
        {"name": name, "mountPath": volume.path, **read_only},
    )


def _named(patch: Mapping[str, Any], container: str) -> dict[str, Any]:
    """Gives containers without a name the name of the job's container."""
    containers = (patch.get("spec") or {}).get("containers")
    if not isinstance(containers, list):
        return dict(patch)
    named = [
        {"name": container, **item} if isinstance(item, dict) and DIRECTIVE not in item else item for item in containers
    ]
    return {**patch, "spec": {**patch["spec"], "containers": named}}


def _present(fields: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value}
