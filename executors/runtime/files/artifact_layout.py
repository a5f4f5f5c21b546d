"""Folder and file names in TFX artifacts, of current and earlier releases of TFX."""

from __future__ import annotations

import os

from . import file_io

# From TFX's path_constants, and from releases before 0.29.
SERVING_DIRS = ("Format-Serving", "serving_model_dir")
REJECTED_DIR = "rejected"  # in a model run folder: models that were not published
FAILED_DIR = ".failed"  # beside the numbered model runs of a pipeline step: what is kept of failed executions
EVAL_DIR = "Format-TFMA"
LATEST = "latest"


def root_of_artifact(uri: str) -> str:
    """Returns the pipeline root for an artifact's folder, such as `ROOT/Trainer/model_run/7`."""
    return file_io.parent(file_io.parent(file_io.parent(uri)))


def is_numbered(folder: str) -> bool:
    """Returns whether a folder is numbered by TFX, which deletes it when the step fails."""
    return os.path.basename(folder.rstrip("/")).isdigit()


def kept_folder(folder: str) -> str:
    """Returns the folder that keeps the files of a failed run: the model run, or `.failed` if TFX deletes that."""
    if not is_numbered(folder):
        return folder
    return os.path.join(file_io.parent(folder), FAILED_DIR, os.path.basename(folder.rstrip("/")))


def latest(path: str) -> str:
    """Replaces a path component `latest` by the folder with the highest number beside it.

    TFX numbers the outputs of a pipeline's step, and each run of a step writes a new one:

        latest("pipeline/Transform/transform_graph/latest")   "pipeline/Transform/transform_graph/6"

    Returns the path unchanged without that component, if `latest` itself exists, or without numbered folders.
    """
    before, name, after = path.partition(f"/{LATEST}")
    if not name or (after and not after.startswith("/")) or file_io.exists(before + name):
        return path
    numbered = file_io.numbered_in(before)
    return f"{numbered[0]}{after}" if numbered else path
