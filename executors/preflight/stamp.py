"""Caches passed checks and their findings in a pipeline's root, so that an unchanged run is not checked again.

stamp.note(root, stamp.fingerprint(request), report.findings)
stamp.findings(root, stamp.fingerprint(request))    # {"train_examples": "raw"}; None on a cache miss
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
import tempfile
from collections.abc import Mapping
from typing import Any

from ..errors import TrainerError
from ..runtime.files import file_io
from .request import CheckRequest

FILE = "generic_trainer_check.json"
_PACKAGES = ("generic-trainer", "tensorflow", "tfx")


def fingerprint(request: CheckRequest) -> str:
    """Returns a SHA-256 digest of everything that a check's outcome depends on; "" if the module is not found.

    Covers the modules' source files, the options, the versions of TensorFlow, TFX and this package, and name, size and
    modification time of files in raw data, schema and base model.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="generic-trainer-") as scratch:
            code = request.find_modules(scratch).fingerprint
    except TrainerError:
        return ""
    state = request.to_json()
    del state["modules"]  # covered by `code`
    for name in ("serving_model_dir", "eval_model_dir", "model_run_dir", "checkpoint_dir"):
        state["fn_args"].pop(name, None)
    named = [path for path in (request.data, state["fn_args"].get("schema_path"), request.base_model) if path]
    versions = [importlib.metadata.version(name) for name in _PACKAGES]
    listing = [(path, file_io.size_of(path), _changed(path)) for root in named for path in _files(root)]
    text = json.dumps([code, state, listing, versions], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def findings(root: str, digest: str) -> dict[str, Any] | None:
    """Returns the findings (see `Report.findings`) of the last passed check if it has this digest, else None."""
    with contextlib.suppress(OSError, ValueError, KeyError, AttributeError):  # a file of an older version has a list
        found: dict[str, Any] | None = json.loads(file_io.read_text(os.path.join(root, FILE)))["passed"].get(digest)
        return found
    return None


def note(root: str, digest: str, found: Mapping[str, object]) -> None:
    """Writes that the check with this digest passed, and its findings; replaces the previous entry.

    Creates the folder if needed. Ignores OSErrors.

    Args:
      root: The pipeline's root.
      digest: Digest from `fingerprint`; a no-op for "".
      found: The findings, as JSON values.
    """
    if digest:
        with contextlib.suppress(OSError):
            file_io.write_text(os.path.join(root, FILE), json.dumps({"passed": {digest: found}}) + "\n")


def _files(path: str) -> list[str]:
    if not file_io.isdir(path):
        return [path] if file_io.exists(path) else []
    return [os.path.join(path, name) for name in file_io.files_below(path)]


def _changed(path: str) -> float:
    return 0.0 if file_io.is_remote(path) else os.path.getmtime(path)
