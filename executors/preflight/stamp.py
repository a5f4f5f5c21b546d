"""Caches passed checks and their findings in a pipeline's root, so that an unchanged run is not checked again.

stamp.note(root, stamp.fingerprint(request, root), report.findings)
stamp.findings(root, stamp.fingerprint(request, root))    # {"train_examples": "raw"}; None on a cache miss
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
import tempfile
from collections.abc import Mapping
from typing import Any, TypedDict

from ..errors import InputError, TrainerError
from ..runtime.files import file_io
from ..runtime.files.content_digests import digests_in
from ..runtime.files.json_data import read_json
from .request import CheckRequest

FILE = "generic_trainer_check.json"
_PACKAGES = ("generic-trainer", "tensorflow", "tfx")
_MODULES = ("modules", "module", "transform_module", "tuner_module")
_OUTPUTS = ("serving_model_dir", "eval_model_dir", "model_run_dir", "checkpoint_dir")


class _Passed(TypedDict):
    passed: dict[str, dict[str, Any]]


def fingerprint(request: CheckRequest, root: str) -> str:
    """Returns a SHA-256 digest of everything that a check's outcome depends on; "" if the module is not found.

    Covers the modules' source files, the options, the versions of TensorFlow, TFX and this package, and the content of
    raw data, schema, base model and hyper-parameters.

    Args:
      request: The check's request.
      root: The pipeline's root, which keeps the digests of files.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="generic-trainer-") as scratch:
            code = request.find_modules(scratch).fingerprint
    except TrainerError:
        return ""
    state, digests = request.to_json(), digests_in(root)
    for name in _MODULES:
        del state[name]  # covered by `code`
    for name in _OUTPUTS:
        state["fn_args"].pop(name, None)
    paths = [state.pop(name) for name in ("data", "base_model", "hyperparameters")]
    paths += [state["fn_args"].pop(name) for name in ("schema_path", "schema_file")]
    contents = [digests.of_tree(path) if path else "" for path in paths]
    versions = [importlib.metadata.version(name) for name in _PACKAGES]
    text = json.dumps([code, state, contents, versions], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def findings(root: str, digest: str) -> dict[str, Any] | None:
    """Returns the findings (see `Report.findings`) of the last passed check if it has this digest, else None."""
    with contextlib.suppress(OSError, InputError):  # missing, garbled, or of an older version, which has a list
        return read_json(os.path.join(root, FILE), _Passed, "The check")["passed"].get(digest)
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
        digests_in(root).save()
