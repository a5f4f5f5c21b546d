"""Manifests are held against the schemas that their projects publish."""

from __future__ import annotations

import functools
import gzip
import json
import pathlib
from typing import Any

SCHEMAS = pathlib.Path(__file__).resolve().parents[1] / "pipelines" / "schemas"


def require_valid(manifest: Any, name: str) -> None:
    """Checks a manifest against a published schema: `require_valid(manifest, "rayjob_v1")`."""
    import jsonschema

    jsonschema.Draft7Validator(_schema(name)).validate(manifest)


@functools.cache
def _schema(name: str) -> Any:
    schema = _strict(json.loads(gzip.decompress((SCHEMAS / f"{name}.json.gz").read_bytes())))
    schema["properties"]["metadata"] = {"type": "object"}  # Kubernetes' own, which the definition omits
    return schema


def _strict(schema: Any) -> Any:
    """Forbids fields that are not in the schema, which Kubernetes itself would drop silently."""
    if isinstance(schema, list):
        return [_strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {key: _strict(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        strict.setdefault("additionalProperties", schema.get("x-kubernetes-preserve-unknown-fields", False))
    return strict
