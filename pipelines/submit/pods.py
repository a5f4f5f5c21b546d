"""Pod settings that clusters require, and their place in pod templates.

    settings = PodSettings(labels={"team": "ads"}, tolerations=(Toleration.parse("dedicated=ml:NoSchedule"),), shm_gb=2)
    settings.apply(template, "ray-worker")

A patch of the user is applied last, so it can change everything. Only there `$(NAME)` is a reference to a variable.
"""

from __future__ import annotations

import dataclasses
import math
import posixpath
from collections.abc import Iterable, Mapping
from typing import Any

from ...executors.errors import InputError, did_you_mean
from ...executors.runtime.files.plain_yaml import yaml_documents
from .accelerators import GPU, node_label
from .expansion import environment
from .names import LABEL_KEY, LABEL_VALUE, QUEUE, SECRET_KEY, SUBDOMAIN, VARIABLE, NameRule, require_unique
from .strategic_merge import merged
from .submission import SubmittedJob

PULL_POLICIES = ("Always", "IfNotPresent", "Never")
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
METRICS_PORT = "metrics"
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_SHARED_MEMORY = "/dev/shm"  # noqa: S108  # nosec B108


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
class Toleration:
    """A toleration of a node's taint.

    Attributes:
      key: The taint's key.
      value: The taint's value; None for any value.
      effect: "NoSchedule", "PreferNoSchedule" or "NoExecute"; "" for all.
    """

    key: str
    value: str | None = None
    effect: str = ""

    @classmethod
    def parse(cls, text: str) -> Toleration:
        """Parses KEY, KEY=VALUE, KEY:EFFECT or KEY=VALUE:EFFECT, the form of `kubectl taint`.

        Raises:
          InputError: When the text has another form.
        """
        taint, _, effect = text.partition(":")
        key, has_value, value = taint.partition("=")
        if not LABEL_KEY.allows(key) or not LABEL_VALUE.allows(value) or (":" in text and not effect):
            raise InputError(f"--toleration {text}: expected KEY[=VALUE][:EFFECT], such as dedicated=ml:NoSchedule.")
        if effect and effect not in _EFFECTS:
            raise InputError(
                f"--toleration {text}: {effect!r} is no effect; choose from {', '.join(_EFFECTS)}."
                f"{did_you_mean(effect, _EFFECTS)}"
            )
        return cls(key, value if has_value else None, effect)

    def to_json(self) -> dict[str, str]:
        """Returns it as in a pod's `tolerations`."""
        match = {"operator": "Exists"} if self.value is None else {"operator": "Equal", "value": self.value}
        return {"key": self.key, **match, **({"effect": self.effect} if self.effect else {})}


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
      labels: Labels of job and pods.
      annotations: Annotations of job and pods.
      queue: Name of the Kueue LocalQueue that admits the job.
      env: Environment variables.
      env_secrets: Environment variables from Secrets.
      node_selector: Labels that a node must have.
      tolerations: Tolerations of nodes' taints.
      pull_policy: When the image is pulled: "Always", "IfNotPresent" or "Never".
      pull_secrets: Names of Secrets with credentials of the image's registry.
      priority_class: Name of the pods' PriorityClass.
      run_as_user: User id of all processes.
      fs_group: Group id of the files on volumes; added to the processes' groups.
      shm_gb: Size of /dev/shm in 10^9 bytes, which counts as memory of the container; 0 for the default of 64 MiB.
      patch: A strategic merge patch of the pod template, applied last. A container without a name is the job's.

    Raises:
      InputError: From the constructor, when Kubernetes does not allow a name, or a name occurs twice.
    """

    volumes: tuple[Volume, ...] = ()
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    queue: str = ""
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)
    env_secrets: tuple[SecretEnv, ...] = ()
    node_selector: Mapping[str, str] = dataclasses.field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    pull_policy: str = ""
    pull_secrets: tuple[str, ...] = ()
    priority_class: str = ""
    run_as_user: int | None = None
    fs_group: int | None = None
    shm_gb: float = 0.0
    patch: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        QUEUE.require(self.queue, "--queue")
        SUBDOMAIN.require(self.priority_class, "--priority-class")
        for name in self.pull_secrets:
            SUBDOMAIN.require(name, "--image-pull-secret")
        require_unique(self.pull_secrets, "--image-pull-secret")
        require_unique([volume.path for volume in self.volumes], "--volume")
        variables = [*self.env, *(secret.name for secret in self.env_secrets if secret.name)]
        require_unique(variables, "--env and --env-secret")

    @property
    def job_metadata(self) -> dict[str, object]:
        """Labels and annotations of the job itself; {} if there are none."""
        labels = {**self.labels, **({QUEUE_LABEL: self.queue} if self.queue else {})}
        return _present(labels=labels, annotations=dict(self.annotations))

    def apply(self, template: Mapping[str, object], container: str) -> dict[str, Any]:
        """Returns a pod template with these settings.

        Args:
          template: The template; it has a container with the name.
          container: Name of the container that runs the job.

        Raises:
          InputError: When the patch does not fit the template.
        """
        result = merged(template, self._as_patch(container))
        main = next(one for one in result["spec"]["containers"] if one["name"] == container)
        whole = [{"secretRef": {"name": one.secret}} for one in self.env_secrets if not one.name]
        # These lists have no merge key, so a patch would replace those of the template.
        _extend(main, "envFrom", whole)
        _extend(result["spec"], "tolerations", [one.to_json() for one in self.tolerations])
        if self.patch:
            result = merged(result, _named(self.patch, container))
        return dict(result)

    def _as_patch(self, container: str) -> dict[str, Any]:
        claims = [_claim(number, volume) for number, volume in enumerate(self.volumes)]
        volumes, mounts = [volume for volume, _ in claims], [mount for _, mount in claims]
        if self.shm_gb:
            size = gigabytes(self.shm_gb)
            volumes.append({"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": size}})
            mounts.append({"name": "shared-memory", "mountPath": _SHARED_MEMORY})
        env: list[Mapping[str, object]] = [*environment(self.env)]
        env += [
            {"name": one.name, "valueFrom": {"secretKeyRef": {"name": one.secret, "key": one.key}}}
            for one in self.env_secrets
            if one.name
        ]
        context = {"runAsUser": self.run_as_user, "fsGroup": self.fs_group}
        spec = _present(
            containers=[
                {
                    "name": container,
                    **_present(imagePullPolicy=self.pull_policy, env=env, volumeMounts=mounts),
                }
            ],
            volumes=volumes,
            nodeSelector=dict(self.node_selector),
            imagePullSecrets=[{"name": name} for name in self.pull_secrets],
            priorityClassName=self.priority_class,
            securityContext={name: number for name, number in context.items() if number is not None},
        )
        return _present(metadata=_present(labels=dict(self.labels), annotations=dict(self.annotations)), spec=spec)


def training_pods(settings: PodSettings, job: SubmittedJob) -> PodSettings:
    """Returns the settings of pods that train, which need nodes with the job's GPUs.

    Raises:
      InputError: When an accelerator is set without a number of GPUs.
    """
    if not job.options.gpus_per_worker:
        if job.accelerator:
            raise InputError(f"--accelerator {job.accelerator} requires GPUs: add --gpus-per-worker 1.")
        return settings
    selector = dict(settings.node_selector)
    if job.accelerator:
        selector |= node_label(job.accelerator, "--accelerator")
    taint = Toleration(GPU, effect="NoSchedule")
    return dataclasses.replace(settings, node_selector=selector, tolerations=(*settings.tolerations, taint))


def training_resources(job: SubmittedJob, overhead_gb: float = 0.0) -> dict[str, str]:
    """Returns the resources of a container that trains, by Kubernetes' names.

    Args:
      job: The job.
      overhead_gb: Memory in 10^9 bytes besides that of the training.

    Raises:
      InputError: When a worker has a fraction of a GPU.
    """
    options = job.options
    resources = {"cpu": f"{options.cpus_per_worker:g}"}
    if options.memory_gb_per_worker is not None:
        resources["memory"] = gigabytes(options.memory_gb_per_worker + overhead_gb)
    if options.gpus_per_worker % 1:
        raise InputError(f"--gpus-per-worker {options.gpus_per_worker:g}: pods take whole GPUs only. Set an integer.")
    if options.gpus_per_worker:
        resources[GPU] = f"{options.gpus_per_worker:g}"
    return resources


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


def parse_pairs(flag: str, texts: Iterable[str], *, labels: bool = False) -> dict[str, str]:
    """Parses `KEY=VALUE` texts of a repeated flag.

    Args:
      flag: The flag, for messages.
      texts: The texts.
      labels: Whether keys and values must be valid for Kubernetes labels.

    Raises:
      InputError: When a text has another form, Kubernetes does not allow it, or a key occurs twice.
    """
    pairs = _pairs(flag, texts, LABEL_KEY, "KEY=VALUE with a key such as team or example.com/team")
    for value in pairs.values() if labels else ():
        LABEL_VALUE.require(value, flag)
    return pairs


def parse_variables(texts: Iterable[str]) -> dict[str, str]:
    """Parses `NAME=VALUE` texts of --env.

    Raises:
      InputError: When a text has another form, or a name occurs twice.
    """
    return _pairs("--env", texts, VARIABLE, "NAME=VALUE")


def _pairs(flag: str, texts: Iterable[str], rule: NameRule, form: str) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    for name, mark, value in pairs:
        if not mark or not rule.allows(name):
            raise InputError(f"{flag} {name + mark + value}: expected {form}.")
    require_unique([name for name, _, _ in pairs], flag)
    return {name: value for name, _, value in pairs}


def gigabytes(number: float) -> str:
    """Converts 10^9 bytes to a Kubernetes quantity in units of 10^6 bytes, rounded up."""
    return f"{math.ceil(number * 1000)}M"


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
    named = [{"name": container, **one} if isinstance(one, dict) and "$patch" not in one else one for one in containers]
    return {**patch, "spec": {**patch["spec"], "containers": named}}


def _extend(target: dict[str, Any], name: str, items: list[Any]) -> None:
    if items:
        target[name] = [*target.get(name, []), *items]


def _present(**fields: object) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}
