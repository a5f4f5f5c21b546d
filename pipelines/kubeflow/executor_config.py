"""The Kubernetes-specific configuration of a step: `KubernetesExecutorConfig` of Kubeflow Pipelines, in JSON form.

See https://github.com/kubeflow/pipelines/blob/master/kubernetes_platform/proto/kubernetes_executor_config.proto.
"""

from __future__ import annotations

from typing import Any

from ...executors.errors import InputError
from ..submit.pods import QUEUE_LABEL, PodSettings, gigabytes


def executor_config(pods: PodSettings) -> dict[str, Any]:
    """Returns the configuration for the settings of a step's pod, without its environment variables; see `variables`.

    Deprecated fields such as `secretName` are used where their replacements are unknown to servers before 2.5.
    """
    labels = {**pods.labels, **({QUEUE_LABEL: pods.queue} if pods.queue else {})}
    metadata = {"labels": labels, "annotations": dict(pods.annotations)}
    config = {
        "pvcMount": [{"constant": one.claim, "mountPath": one.path} for one in pods.volumes],
        "podMetadata": {name: pairs for name, pairs in metadata.items() if pairs},
        "secretAsEnv": [
            {"secretName": one.secret, "keyToEnv": [{"secretKey": one.key, "envVar": one.name}]}
            for one in pods.env_secrets
        ],
        "nodeSelector": {"labels": dict(pods.node_selector)} if pods.node_selector else {},
        "tolerations": [one.to_json() for one in pods.tolerations],
        "imagePullPolicy": pods.pull_policy,
        "imagePullSecret": [{"secretName": name} for name in pods.pull_secrets],
        "enabledSharedMemory": {"volumeName": "shared-memory", "size": gigabytes(pods.shm_gb)} if pods.shm_gb else {},
        "securityContext": {"runAsUser": str(pods.run_as_user)} if pods.run_as_user is not None else {},
    }
    return {name: value for name, value in config.items() if value}


def require_supported(pods: PodSettings) -> None:
    """Checks that Kubeflow Pipelines has a field for each setting.

    Raises:
      InputError: When it has none; the message names the flag and the alternative.
    """
    for volume in pods.volumes:
        if volume.read_only:
            raise InputError(
                f"--volume {volume.claim}:{volume.path}:ro: Kubeflow mounts claims writable only. Omit :ro."
            )
    for one in pods.env_secrets:
        if not one.name:
            raise InputError(
                f"--env-secret {one.secret}: Kubeflow Pipelines sets single variables only. Write NAME=SECRET/KEY for "
                "each."
            )
    for flag, value in (
        ("--priority-class", pods.priority_class),
        ("--fs-group", pods.fs_group is not None),
        ("--pod-patch", pods.patch),
    ):
        if value:
            raise InputError(
                f"{flag}: Kubeflow Pipelines cannot set it in a pipeline's file. Set it for all pods of the namespace, "
                "with an admission policy or the installation's default pod configuration."
            )
