"""The Kubernetes-specific configuration of a step: `KubernetesExecutorConfig` of Kubeflow Pipelines, in JSON form.

See https://github.com/kubeflow/pipelines/blob/master/kubernetes_platform/proto/kubernetes_executor_config.proto.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...executors.errors import InputError

KUBEFLOW, VERTEX = "kubeflow", "vertex"
_SHARED_MEMORY = "/dev/shm"  # noqa: S108  # nosec B108
# The fields of a pod template that a platform has, too. A type stands for a value, a list for its items; dict for texts
# by name.
_FIELDS: dict[str, dict[str, Any]] = {
    KUBEFLOW: {
        "metadata": {"labels": dict, "annotations": dict},
        "spec": {
            "nodeSelector": dict,
            "tolerations": list,
            "imagePullSecrets": [{"name": str}],
            "securityContext": {"runAsUser": int},
            "volumes": [{"name": str, "persistentVolumeClaim": {"claimName": str}, "emptyDir": dict}],
            "containers": [
                {
                    "name": str,
                    "imagePullPolicy": str,
                    "env": [{"name": str, "value": str, "valueFrom": {"secretKeyRef": {"name": str, "key": str}}}],
                    "volumeMounts": [{"name": str, "mountPath": str}],
                }
            ],
        },
    },
    VERTEX: {"spec": {"containers": [{"name": str, "env": [{"name": str, "value": str}]}]}},
}
_KINDS = {dict: "an object, of texts only", list: "a list", str: "a text", int: "a whole number"}
_REMEDIES = {
    "envFrom": "Write --env-secret NAME=SECRET/KEY for each variable.",
    "readOnly": "Claims are mounted writable only: omit :ro of --volume.",
    "volumes": "Mount it in spec.containers[0].volumeMounts.",
    "volumeMounts": "A step mounts claims, and at /dev/shm a volume with emptyDir: {medium: Memory, sizeLimit: SIZE}.",
}
_REMEDY = {
    KUBEFLOW: "Set it for all pods of the namespace, with an admission policy or the installation's default pod "
    "configuration.",
    VERTEX: "Vertex AI sets variables only: omit --queue, --env-secret, --image-pull-secret and --pod-patch.",
}


def executor_config(template: Mapping[str, Any], platform: str = KUBEFLOW) -> dict[str, Any]:
    """Returns the configuration for a step's pod template, without variables that have a value.

    Deprecated fields such as `secretName` are used where their replacements are unknown to servers before 2.5.

    Args:
      template: The template, with one container.
      platform: "kubeflow", or "vertex", which has no fields but such variables.

    Raises:
      InputError: When the platform has no field for a part of the template.
    """
    _require_supported(template, _FIELDS[platform], "", platform)
    spec = template["spec"]
    main, *others = spec["containers"]
    if others:
        raise _unsupported("spec.containers[1]", others[0], platform)
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
    mounts = main.get("volumeMounts", [])
    if unused := volumes.keys() - {mount.get("name") for mount in mounts}:
        raise _unsupported("spec.volumes", volumes[min(unused)], platform)
    for mount in mounts:
        match volumes.get(mount.get("name")), mount["mountPath"]:
            case {"persistentVolumeClaim": {"claimName": claim}}, path:
                config["pvcMount"].append({"constant": claim, "mountPath": path})
            case {"emptyDir": {"medium": "Memory", "sizeLimit": size}}, path if path == _SHARED_MEMORY:
                config["enabledSharedMemory"] = {"volumeName": mount["name"], "size": size}
            case _:
                raise _unsupported("spec.containers[0].volumeMounts", mount, platform)
    for variable in main.get("env", []):
        match variable:
            case {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}:
                entry = {"secretKey": key, "envVar": name}
                config["secretAsEnv"].append({"secretName": secret, "keyToEnv": [entry]})
            case {"valueFrom": _}:
                raise _unsupported("spec.containers[0].env", variable, platform)
    return {name: value for name, value in config.items() if value}


def _require_supported(value: object, fields: Any, where: str, platform: str) -> None:
    if isinstance(fields, list) and isinstance(value, list):
        for index, item in enumerate(value):
            _require_supported(item, fields[0], f"{where}[{index}]", platform)
    elif isinstance(fields, dict) and isinstance(value, Mapping):
        for name, part in value.items():
            place = f"{where}.{name}".lstrip(".")
            if name not in fields:
                raise _unsupported(place, value if part is True else part, platform)  # the object of a readOnly
            _require_supported(part, fields[name], place, platform)
    elif not _is_of_type(value, fields):
        kind = _KINDS[fields if isinstance(fields, type) else type(fields)]
        raise InputError(f"--pod-patch: {where}: {str(value)[:80]} must be {kind}.")


def _is_of_type(value: object, kind: object) -> bool:
    if kind is dict:
        return isinstance(value, Mapping) and all(isinstance(text, str) for text in value.values())
    return isinstance(kind, type) and isinstance(value, kind)


def _unsupported(where: str, value: object, platform: str) -> InputError:
    remedy = _REMEDIES.get(where.rpartition(".")[2] if platform == KUBEFLOW else "", _REMEDY[platform])
    return InputError(
        f"pod template: {where}: {str(value)[:80]}: a pipeline --to {platform} has no such field. {remedy}"
    )
