"""The Kubernetes-specific configuration of a step: `KubernetesExecutorConfig` of Kubeflow Pipelines, in JSON form.

See https://github.com/kubeflow/pipelines/blob/master/kubernetes_platform/proto/kubernetes_executor_config.proto.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...executors.errors import InputError
from ..submit.pods import PodSettings

_SHARED_MEMORY = "/dev/shm"  # noqa: S108  # nosec B108
# The fields of a pod template that the configuration has, too. None stands for any value, a list for its items.
_FIELDS = {
    "metadata": {"labels": None, "annotations": None},
    "spec": {
        "nodeSelector": None,
        "tolerations": None,
        "imagePullSecrets": [{"name": None}],
        "securityContext": {"runAsUser": None},
        "volumes": [{"name": None, "persistentVolumeClaim": {"claimName": None}, "emptyDir": None}],
        "containers": [
            {
                "name": None,
                "imagePullPolicy": None,
                "env": [{"name": None, "value": None, "valueFrom": {"secretKeyRef": {"name": None, "key": None}}}],
                "volumeMounts": [{"name": None, "mountPath": None}],
            }
        ],
    },
}


def executor_config(template: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the configuration for a step's pod template, without variables that have a value.

    Deprecated fields such as `secretName` are used where their replacements are unknown to servers before 2.5.

    Raises:
      InputError: When Kubeflow Pipelines has no field for a part of the template.
    """
    _require_supported(template, _FIELDS, "")
    spec = template["spec"]
    main, *others = spec["containers"]
    if others:
        raise _unsupported(f"container {others[0]['name']}")
    volumes = {volume["name"]: volume for volume in spec.get("volumes", [])}
    config: dict[str, Any] = {
        "podMetadata": template.get("metadata"),
        "nodeSelector": {"labels": spec["nodeSelector"]} if spec.get("nodeSelector") else {},
        "tolerations": spec.get("tolerations"),
        "imagePullPolicy": main.get("imagePullPolicy"),
        "imagePullSecret": [{"secretName": secret["name"]} for secret in spec.get("imagePullSecrets", [])],
        "securityContext": {name: str(number) for name, number in spec.get("securityContext", {}).items()},
        "pvcMount": [],
        "secretAsEnv": [],
    }
    for mount in main.get("volumeMounts", []):
        match volumes.get(mount["name"]), mount["mountPath"]:
            case {"persistentVolumeClaim": {"claimName": claim}}, path:
                config["pvcMount"].append({"constant": claim, "mountPath": path})
            case {"emptyDir": {"medium": "Memory", "sizeLimit": size}}, path if path == _SHARED_MEMORY:
                config["enabledSharedMemory"] = {"volumeName": mount["name"], "size": size}
            case _:
                raise _unsupported(f"the mount of {mount['name']} at {mount['mountPath']}")
    for variable in main.get("env", []):
        match variable:
            case {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}:
                entry = {"secretKey": key, "envVar": name}
                config["secretAsEnv"].append({"secretName": secret, "keyToEnv": [entry]})
    return {name: value for name, value in config.items() if value}


def require_supported(pods: PodSettings) -> None:
    """Checks that Kubeflow Pipelines has a field for each flag; the patch is checked by `executor_config`.

    Raises:
      InputError: When it has none; the message names the flag and the alternative.
    """
    for volume in pods.volumes:
        if volume.read_only:
            raise InputError(
                f"--volume {volume.claim}:{volume.path}:ro: Kubeflow mounts claims writable only. Omit :ro."
            )
    for secret in pods.env_secrets:
        if not secret.name:
            raise InputError(
                f"--env-secret {secret.secret}: Kubeflow Pipelines sets single variables only. Write NAME=SECRET/KEY "
                "for each."
            )


def _require_supported(value: object, fields: Any, where: str) -> None:
    if isinstance(fields, list) and isinstance(value, list):
        for index, item in enumerate(value):
            _require_supported(item, fields[0], f"{where}[{index}]")
    elif isinstance(fields, dict) and isinstance(value, Mapping):
        for name, part in value.items():
            place = f"{where}.{name}".lstrip(".")
            if name not in fields:
                raise _unsupported(place)
            _require_supported(part, fields[name], place)
    elif fields is not None:
        raise InputError(f"--pod-patch: {where} must be {'a list' if isinstance(fields, list) else 'an object'}.")


def _unsupported(where: str) -> InputError:
    return InputError(
        f"--pod-patch: {where}: Kubeflow Pipelines cannot set it in a pipeline's file. Set it for all pods of the "
        "namespace, with an admission policy or the installation's default pod configuration."
    )
