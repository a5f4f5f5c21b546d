"""Pod settings that clusters require: strategic merge patches of pod templates.

    settings = PodSettings((volume_claims(["data:/data"]),), queue="ml", patch=read_patch("pod.yaml"))
    settings.apply(template, "ray-worker")

A patch of the user is applied last, so it can change everything. Only there `$(NAME)` is a reference to a variable.
"""

from __future__ import annotations

import dataclasses
import json
import posixpath
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ...executors.errors import InputError, did_you_mean
from ...executors.runtime.files.plain_yaml import yaml_documents
from .expansion import environment
from .names import QUEUE, SECRET_KEY, SUBDOMAIN, VARIABLE, require_unique
from .secrets import require_no_secrets
from .strategic_merge import DIRECTIVE, merged

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"


@dataclasses.dataclass(frozen=True)
class PodSettings:
    """Settings of a job's pods. Empty values keep the cluster's defaults.

    Attributes:
      patches: Patches of the pod template in the order in which they are applied. A container without a name is the
        job's.
      queue: Name of the Kueue LocalQueue that admits the job.
      service_account: Name of the pods' ServiceAccount.
      patch: The user's patch, applied last. The job itself also gets its labels and annotations.

    Raises:
      InputError: From the constructor, when Kubernetes does not allow a name.
    """

    patches: tuple[Mapping[str, Any], ...] = ()
    queue: str = ""
    service_account: str = ""
    patch: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        QUEUE.require(self.queue, "--queue")
        SUBDOMAIN.require(self.service_account, "--service-account")

    @property
    def folders(self) -> list[str]:
        """The folders where `volume_claims` are mounted."""
        containers = [main for patch in self.patches for main in patch["spec"].get("containers", [])]
        return [mount["mountPath"] for main in containers for mount in main.get("volumeMounts", [])]

    @property
    def job_metadata(self) -> dict[str, Any]:
        """Labels and annotations of the job itself; {} if there are none."""
        metadata = self.patch.get("metadata") or {}
        given = merged({}, {name: metadata[name] for name in ("labels", "annotations") if name in metadata})
        return dict(merged(given, {"labels": {QUEUE_LABEL: self.queue}} if self.queue else {}))

    def apply(self, template: Mapping[str, Any], container: str) -> dict[str, Any]:
        """Returns a pod template with these settings.

        Args:
          template: The template; it has a container with the name.
          container: Name of the container that runs the job.

        Raises:
          InputError: When the user's patch does not fit the template.
        """
        pod = merged(template, _patch({}, serviceAccountName=self.service_account))
        inherited = _main(pod, container).get("envFrom", [])
        for patch in self.patches:
            pod = merged(pod, _named(patch, container))
        main = _main(pod, container)
        if main.get("envFrom", []) != inherited:  # the list has no merge key, so a patch replaces it
            main["envFrom"] = [*inherited, *main["envFrom"]]
        return dict(merged(pod, _named(self.patch, container)))


def volume_claims(texts: Sequence[str]) -> dict[str, Any]:
    """Returns the patch that mounts volume claims, written CLAIM:/FOLDER or CLAIM:/FOLDER:ro.

    Raises:
      InputError: When a text has another form, or a folder occurs twice.
    """
    volumes, mounts = [], []
    for number, text in enumerate(texts):
        claim, _, place = text.partition(":")
        path, _, mode = place.partition(":")
        path = posixpath.normpath(path)
        is_path = path.startswith("/") and path.strip("/") and path.isprintable()
        if not SUBDOMAIN.allows(claim) or not is_path or mode not in ("", "ro"):
            raise InputError(
                f"--volume {text}: expected CLAIM:/FOLDER or CLAIM:/FOLDER:ro, such as training-data:/data."
            )
        name, read_only = f"claim-{number}", {"readOnly": True} if mode else {}
        volumes.append({"name": name, "persistentVolumeClaim": {"claimName": claim, **read_only}})
        mounts.append({"name": name, "mountPath": path, **read_only})
    require_unique([str(mount["mountPath"]) for mount in mounts], "--volume")
    return _patch({"volumeMounts": mounts}, volumes=volumes)


def variables(env: Sequence[str], secrets: Sequence[str], not_secret: Collection[str] = ()) -> dict[str, Any]:
    """Returns the patch that sets environment variables.

    Args:
      env: Variables, written NAME=VALUE.
      secrets: Secrets, written SECRET for a variable per entry, or NAME=SECRET/KEY for a single variable.
      not_secret: Names of variables that look like secrets but are not.

    Raises:
      InputError: When a text has another form or contains a secret, or a name occurs twice.
    """
    pairs = [text.partition("=") for text in env]
    for name, mark, value in pairs:
        if not mark or not VARIABLE.allows(name):
            raise InputError(f"--env {name + mark + value}: expected NAME=VALUE.")
    require_no_secrets("--env", json.dumps({name: value for name, _, value in pairs}), not_secret)
    require_unique([name for name, _, _ in pairs], "--env")
    # null removes the other source of a variable that the template has.
    own: list[dict[str, Any]] = [
        {**item, "valueFrom": None} for item in environment({name: value for name, _, value in pairs})
    ]
    whole = []
    for text in secrets:
        name, has_name, rest = text.rpartition("=")
        secret, _, key = rest.partition("/")
        is_single = bool(has_name) and VARIABLE.allows(name) and SECRET_KEY.allows(key)
        if not SUBDOMAIN.allows(secret) or not (is_single or text == secret):
            raise InputError(f"--env-secret {text}: expected SECRET, or NAME=SECRET/KEY for a single variable.")
        if is_single:
            source = {"secretKeyRef": {"name": secret, "key": key}}
            own.append({"name": name, "value": None, "valueFrom": source})
        else:
            whole.append({"secretRef": {"name": secret}})
    require_unique([item["name"] for item in own], "--env and --env-secret")
    return _patch({"env": own, "envFrom": whole})


def pull_secrets(names: Sequence[str]) -> dict[str, Any]:
    """Returns the patch with the Secrets that have credentials of the image's registry.

    Raises:
      InputError: When Kubernetes does not allow a name, or it occurs twice.
    """
    for name in names:
        SUBDOMAIN.require(name, "--image-pull-secret")
    require_unique(names, "--image-pull-secret")
    return _patch({}, imagePullSecrets=[{"name": name} for name in names])


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


def _patch(main: Mapping[str, object], **fields: object) -> dict[str, Any]:
    """Returns a patch of the pod and the job's container with the fields that are not empty; {} if all are."""
    main = {name: value for name, value in main.items() if value}
    spec = {name: value for name, value in {**fields, "containers": main and [main]}.items() if value}
    return {"spec": spec} if spec else {}


def _main(pod: Mapping[str, Any], name: str) -> dict[str, Any]:
    container: dict[str, Any] = next(item for item in pod["spec"]["containers"] if item["name"] == name)
    return container


def _named(patch: Mapping[str, Any], container: str) -> dict[str, Any]:
    """Gives containers without a name the name of the job's container."""
    containers = (patch.get("spec") or {}).get("containers")
    if not isinstance(containers, list):
        return dict(patch)
    named = [
        {"name": container, **item} if isinstance(item, dict) and DIRECTIVE not in item else item for item in containers
    ]
    return {**patch, "spec": {**patch["spec"], "containers": named}}
