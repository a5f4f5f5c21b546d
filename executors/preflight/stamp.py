"""Notes in a pipeline's root what has passed a check, so that the very same thing is not checked again."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
import tempfile

from .. import file_io
from ..errors import TrainerError
from ..module_source import find_source
from .request import CheckRequest

FILE = "generic_trainer_check.json"
_PACKAGES = ("generic-trainer", "tensorflow", "tfx")


def fingerprint(request: CheckRequest) -> str:
    """Returns what a check's outcome depends on as a digest: the module's files, options, data's names and sizes.

    "" when the module cannot be found.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="generic-trainer-") as scratch:
            code = find_source(request.module, scratch).fingerprint
    except TrainerError:
        return ""
    state = request.to_json()
    for name in ("serving_model_dir", "eval_model_dir", "model_run_dir", "checkpoint_dir"):
        state["fn_args"].pop(name, None)
    named = [path for path in (request.data, state["fn_args"].get("schema_path"), request.base_model) if path]
    versions = [importlib.metadata.version(name) for name in _PACKAGES]
    listing = [(path, file_io.size_of(path), _changed(path)) for root in named for path in _files(root)]
    text = json.dumps([code, state, listing, versions], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def has_passed(root: str, digest: str) -> bool:
    """Returns whether this has passed a check for this root."""
    with contextlib.suppress(OSError, ValueError):
        return bool(digest) and digest in json.loads(file_io.read_text(os.path.join(root, FILE)))["passed"]
    return False


def note(root: str, digest: str) -> None:
    """Notes that it has; the folder may be made for it."""
    if digest:
        with contextlib.suppress(OSError):
            file_io.write_text(os.path.join(root, FILE), json.dumps({"passed": [digest]}) + "\n")


def _files(path: str) -> list[str]:
    if not file_io.isdir(path):
        return [path] if file_io.exists(path) else []
    return [os.path.join(path, name) for name in file_io.files_below(path)]


def _changed(path: str) -> float:
    return 0.0 if file_io.is_remote(path) else os.path.getmtime(path)
