"""A kubeconfig for the imitated API."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest


@pytest.fixture
def kubeconfig(api: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    path = tmp_path / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": api.url}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "research"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(config))
    # The client reads the variable when it is imported.
    from kubernetes.config import kube_config

    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(path))
    return path
