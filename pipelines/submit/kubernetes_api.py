"""Creates custom resources on a Kubernetes cluster.

create([manifest])      # ["rayjob.ray.io/taxi in the namespace research"]
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from absl import logging

from ...executors.errors import InputError

if TYPE_CHECKING:
    from kubernetes.client import ApiClient, ApiException

_OPERATORS = {"ray.io": "KubeRay", "trainer.kubeflow.org": "Kubeflow Trainer"}
_CLUSTER_SCOPED = ("ClusterTrainingRuntime",)


def create(manifests: Sequence[Mapping[str, Any]], client: ApiClient | None = None) -> list[str]:
    """Creates custom resources in order; if one is rejected, those created before are deleted.

    Args:
      manifests: The resources, each of a kind whose plural ends in "s".
      client: A `kubernetes.client.ApiClient` (default: for the cluster of this pod, or else of the kubeconfig).

    Returns:
      Kind, name and namespace of each, for display.

    Raises:
      InputError: When the Kubernetes client is not installed, no cluster is configured or reachable, or the cluster
        rejects a resource.
    """
    try:
        import kubernetes
        from urllib3.exceptions import HTTPError
    except ImportError as error:
        raise InputError(
            f"--send requires the Kubernetes client ({error}): pip install kubernetes. Or omit --send, and run "
            "kubectl create -f with the written manifest."
        ) from error
    namespace = manifests[0]["metadata"].get("namespace") or _current_namespace(kubernetes)
    with contextlib.ExitStack() as created:
        try:
            api = kubernetes.client.CustomObjectsApi(client or _client(kubernetes))
            for manifest in manifests:
                try:
                    _call(api, "create", manifest, namespace, dict(manifest))
                except kubernetes.client.rest.ApiException as error:
                    raise InputError(_rejection_message(error, manifest, namespace)) from error
                created.callback(_delete, api, manifest, namespace)
        except kubernetes.config.ConfigException as error:
            raise InputError(f"--send: no Kubernetes cluster is configured here ({error}). Set KUBECONFIG.") from error
        except HTTPError as error:
            raise InputError(f"--send: the cluster does not respond: {error}.") from error
        created.pop_all()
    return [_described(manifest, namespace) for manifest in manifests]


def _delete(api: Any, manifest: Mapping[str, Any], namespace: str) -> None:
    import kubernetes

    try:
        _call(api, "delete", manifest, namespace, manifest["metadata"]["name"])
    except kubernetes.client.rest.ApiException as error:
        logging.warning("--send: a resource of the rejected job could not be deleted: %s", error.reason)


def _call(api: Any, verb: str, manifest: Mapping[str, Any], namespace: str, argument: object) -> None:
    group, _, version = manifest["apiVersion"].partition("/")
    is_cluster_scoped = manifest["kind"] in _CLUSTER_SCOPED
    method = getattr(api, f"{verb}_{'cluster' if is_cluster_scoped else 'namespaced'}_custom_object")
    method(group, version, *([] if is_cluster_scoped else [namespace]), f"{manifest['kind'].lower()}s", argument)


def _described(manifest: Mapping[str, Any], namespace: str) -> str:
    kind, name = manifest["kind"], manifest["metadata"]["name"]
    place = "" if kind in _CLUSTER_SCOPED else f" in the namespace {namespace}"
    return f"{kind.lower()}.{manifest['apiVersion'].partition('/')[0]}/{name}{place}"


def _client(kubernetes: ModuleType) -> ApiClient:
    try:
        kubernetes.config.load_incluster_config()
    except kubernetes.config.ConfigException:
        kubernetes.config.load_kube_config()
    return kubernetes.client.ApiClient()


def _current_namespace(kubernetes: ModuleType) -> str:
    try:
        _, active = kubernetes.config.list_kube_config_contexts()
        return str(active["context"].get("namespace") or "default")
    except (kubernetes.config.ConfigException, TypeError):
        return "default"


def _rejection_message(error: ApiException, manifest: Mapping[str, Any], namespace: str) -> str:
    kind, name, group = manifest["kind"], manifest["metadata"]["name"], manifest["apiVersion"].partition("/")[0]
    if error.status == 409:
        return f"--send: {kind} {name} already exists in the namespace {namespace}. Set another --name."
    if error.status == 404:
        return (
            f"--send: the cluster has no resource type {kind.lower()}s.{group}: {_OPERATORS[group]}'s operator is not "
            "installed there."
        )
    return f"--send: the cluster rejected the {kind}: {error.status} {error.reason}: {(error.body or '')[:500]}"
