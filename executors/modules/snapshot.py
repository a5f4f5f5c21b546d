"""Copies a run's module source to `source/` in the model run folder, so that runs can be compared later.

The files are stored as UTF-8, regardless of their declared encoding, with passwords and tokens in string literals
redacted.

    keep_source(source, "out/model_run")
    read_source("out/model_run")  # {"taxi.py": "import tensorflow as tf…"}
"""

from __future__ import annotations

import io
import os
import tokenize

from absl import logging

from ..runtime.files import file_io
from ..runtime.logs.redaction import masked_source
from .source import ModuleSource

FOLDER = "source"
_OUTSIDE = "outside"  # folder for files outside of the module's roots
MAX_BYTES, MAX_FILES = 5_000_000, 200


def keep_source(source: ModuleSource, model_run_dir: str) -> None:
    """Copies the module and the user files that it imports; only the module above `MAX_FILES` or `MAX_BYTES`.

    Args:
      source: The module.
      model_run_dir: The model run folder; an earlier copy in it is replaced.
    """
    folder = os.path.join(model_run_dir, FOLDER)
    file_io.rmtree(folder)
    files: tuple[str, ...] = source.files
    if len(files) > MAX_FILES or sum(os.path.getsize(file) for file in files) > MAX_BYTES:
        logging.info("The module imports %d of your files; only %s is kept.", len(files), source.path)
        files = (source.path,)
    for file in files:
        path = os.path.join(folder, _name(file, source.roots[-1]))
        file_io.write_text(path, masked_source(text_of(file)), synced=False)


def text_of(path: str) -> str:
    """Returns a source file's text; bytes that are invalid in its encoding are replaced.

    For displaying the source, such as in reports. Python itself refuses to import a file with invalid bytes.
    """
    content = file_io.read_bytes(path)
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
    except SyntaxError:  # an unknown encoding, or a first line that is not UTF-8
        encoding = "utf-8"
    return content.decode(encoding, "replace")


def read_source(model_run_dir: str) -> dict[str, str]:
    """Returns the texts of a run's source files by name; {} without a copy."""
    folder = os.path.join(model_run_dir, FOLDER)
    if not file_io.isdir(folder):
        return {}
    return {name: file_io.read_text(os.path.join(folder, name)) for name in file_io.files_below(folder)}


def _name(file: str, root: str) -> str:
    parts = os.path.relpath(file, root).split(os.sep)
    below = [part for part in parts if part != os.pardir]
    return "/".join(below if len(below) == len(parts) else [_OUTSIDE, *below])
