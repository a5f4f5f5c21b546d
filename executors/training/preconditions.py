"""Checks before a run starts: inputs are readable, outputs are writable."""

from __future__ import annotations

import os
import secrets

from ..errors import InputError
from ..fn_args import FnArgs
from ..runtime.files import file_io, storage_errors
from ..runtime.files.schema import read_schema
from ..runtime.files.user_paths import require_readable_kind
from ..saved_models.readable_files import first_problem


def require_outputs(fn_args: FnArgs) -> None:
    """Creates the folders that a run writes to, and checks that they are writable.

    Raises:
      InputError: If a folder is not set or not writable.
    """
    for name in ("serving_model_dir", "model_run_dir"):
        path = fn_args.get(name)
        if not path:
            raise InputError(f"fn_args.{name} is not set: set the folder to write to.")
        folder = path if name == "model_run_dir" else file_io.parent(path)
        try:
            file_io.makedirs(folder)
            probe = os.path.join(folder, f".writable-{secrets.token_hex(4)}")
            file_io.write_text(probe, "", synced=False)
            file_io.file_system(probe).remove(probe)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            if error.errno in storage_errors.SPACE:
                reason = f"{reason}; {storage_errors.free_space(folder).rstrip('.')}"
            raise InputError(f"{name}={path}: cannot write there ({reason}). Choose another folder.") from error


def require_inputs(fn_args: FnArgs, any_origin: bool = False) -> None:
    """Checks that all inputs exist.

    Args:
      fn_args: The run's arguments.
      any_origin: Whether the examples need not be files.

    Raises:
      InputError: If a pattern matches no file, a folder is missing, or one of its files or the schema cannot be read.
    """
    for name in ("train_files", "eval_files"):
        for pattern in fn_args.get(name, ()):
            found = file_io.glob(pattern)
            if not found and not any_origin:
                raise InputError(f"{name}: no file matches {pattern!r}. Check the path, or the split's name.")
            for path in found:
                require_readable_kind(path, name)
    for name in ("transform_graph_path", "base_model"):
        path = fn_args.get(name)
        if path and not file_io.isdir(path):
            raise InputError(f"{name}={path}: there is no such folder.")
        if path and (problem := first_problem(path)):
            raise InputError(f"{name}={path}: {problem}.")
    if fn_args.schema_path:
        read_schema(fn_args.schema_path)
