"""Kubernetes' strategic merge patch, for objects in JSON form.

    merged({"spec": {"containers": [{"name": "node", "image": "i"}]}},
           {"spec": {"containers": [{"name": "node", "imagePullPolicy": "Always"}]}})
    # {"spec": {"containers": [{"name": "node", "image": "i", "imagePullPolicy": "Always"}]}}

Objects are merged, and null removes a field. Lists in `MERGE_KEYS` are merged by a key of their items; other lists are
replaced. `$patch: replace` replaces an object, `$patch: delete` removes an item. See
https://github.com/kubernetes/community/blob/master/contributors/devel/sig-api-machinery/strategic-merge-patch.md.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from ...executors.errors import InputError

DIRECTIVE = "$patch"
# `patchMergeKey` of the lists in a pod, from Kubernetes' API types. Tolerations and envFrom have none.
MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
    "resourceClaims": "name",
}


def merged(value: object, patch: object, where: str = "") -> Any:
    """Returns a patched copy of a value.

    Args:
      value: A value in JSON form.
      patch: The patch.
      where: The path of the value, for error messages, such as "spec.containers".

    Raises:
      InputError: When the patch has another type than the value, an unknown directive, or an item without its key.
    """
    if isinstance(patch, Mapping):
        return _merged_object(value, patch, where)
    if isinstance(patch, list):
        if value is not None and not isinstance(value, list):
            raise InputError(f"{where}: a list cannot be merged into {type(value).__name__} {value!r}.")
        key = MERGE_KEYS.get(where.rpartition(".")[2])
        return _merged_list(value or [], patch, key, where) if key else copy.deepcopy(patch)
    if isinstance(value, (Mapping, list)):
        raise InputError(f"{where}: {patch!r} cannot replace an {'object' if isinstance(value, Mapping) else 'array'}.")
    return patch


def _merged_object(value: object, patch: Mapping[str, object], where: str) -> dict[str, Any]:
    directive = patch.get(DIRECTIVE, "merge")
    if directive not in ("merge", "replace"):
        raise InputError(f"{where or 'the patch'}: {DIRECTIVE} {directive!r} is not supported here.")
    if value is not None and not isinstance(value, Mapping):
        raise InputError(f"{where}: an object cannot be merged into {type(value).__name__} {value!r}.")
    result: dict[str, Any] = {} if directive == "replace" else copy.deepcopy(dict(value or {}))
    for name, part in patch.items():
        if name == DIRECTIVE:
            continue
        if part is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), part, f"{where}.{name}".lstrip("."))
    return result


def _merged_list(value: Sequence[Any], patch: Sequence[object], key: str, where: str) -> list[Any]:
    result = list(copy.deepcopy(value))
    for place, item in enumerate(patch):
        here = f"{where}[{place}]"
        if not isinstance(item, Mapping):
            raise InputError(f"{here}: expected an object with {key}, not {item!r}.")
        if item.get(DIRECTIVE) == "replace" and len(item) == 1:  # an item of its own, which replaces the whole list
            result.clear()
            continue
        if key not in item:
            raise InputError(f"{here}: {key} is missing; items of this list are merged by it.")
        index = next((number for number, old in enumerate(result) if old.get(key) == item[key]), len(result))
        if item.get(DIRECTIVE) == "delete":
            del result[index : index + 1]
        else:
            result[index : index + 1] = [merged(result[index] if index < len(result) else None, item, here)]
    return result
