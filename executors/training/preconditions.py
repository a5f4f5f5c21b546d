"""Checks before a run starts: the module exists, inputs are readable, outputs are writable."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..checkpoints.data_fingerprint import DataFiles, read_inputs
from ..checkpoints.fingerprint import Identity, compute_identity
from ..dialects.needs import choose_keras, reads_any_origin
from ..dialects.registry import installed, require_installed
from ..errors import InputError
from ..fn_args import FnArgs
from ..modules.source import ModuleSource, find_source
from ..runtime.files import file_io, storage_errors
from ..runtime.files.artifact_layout import root_of_artifact
from ..runtime.files.content_digests import digests_in
from ..runtime.files.file_kinds import require_readable_kind
from ..saved_models.readable_files import first_problem

if TYPE_CHECKING:
    from ..engines.base import Engine
    from ..modules.keras_version import KerasChoice
    from ..runtime.files.content_digests import ContentDigests


@dataclasses.dataclass(frozen=True)
class ReadyTraining:
    """A training that can be started.

    Attributes:
      source: The module's files.
      function: Name of the function to run; None if the dialect chooses it.
      keras: The settings of its first process.
      identity: Fingerprint of the training.
      inputs: The files that it reads; see `read_inputs`. Empty if no data were to be read.
      digests: The known digests of the data.
    """

    source: ModuleSource
    function: str | None
    keras: KerasChoice
    identity: Identity
    inputs: Mapping[str, DataFiles]
    digests: ContentDigests


def find_inputs(
    module: str, fn_args: FnArgs, engine: Engine, scratch: str, *, function: str | None, checkpoint_root: str | None
) -> ReadyTraining:
    """Finds the module, its Keras version and its inputs.

    Checks everything that is known before the module runs, except for the outputs; writes nothing.

    Args:
      module: The module's reference.
      fn_args: The run's arguments.
      engine: The engine with the run's options. It is prepared while the data are read.
      scratch: A folder for local copies of the module's files.
      function: See `run.train`.
      checkpoint_root: See `run.train`.

    Raises:
      InputError: If an option is not usable here, or an input is missing or unreadable.
      ModuleError: If there is no such module.
    """
    options, place, dialects = engine.options, engine.place, installed()
    if options.dialect != "auto":
        require_installed(options.dialect, dialects)
    source = find_source(module, scratch)
    if options.dialect != "auto":
        dialects[options.dialect].require_inputs(source.files, fn_args)
    keras = choose_keras(options.keras, source.files, distributed=place.fit_workers > 1)
    engine.prepare(keras.environment())  # meanwhile the data are read
    require_inputs(fn_args, reads_any_origin(source.files))
    folder = fn_args.model_run_dir or ""
    digests = digests_in(root_of_artifact(folder) if checkpoint_root else folder)
    # The other tasks of a cluster need the digest of the data only for the names of a step's checkpoints.
    inputs = read_inputs(fn_args, digests) if place.is_chief or checkpoint_root else {}
    function = function or source.function
    identity = compute_identity(fn_args, source, function, options, keras, inputs)
    return ReadyTraining(source, function, keras, identity, inputs, digests)


def require_outputs(fn_args: FnArgs) -> None:
    """Creates the folders that a run writes to, and checks that they are writable, without a trace in them.

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
            _write_probe(folder)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            if error.errno in storage_errors.SPACE:
                reason = f"{reason}; {storage_errors.free_space(folder).rstrip('.')}"
            raise InputError(f"{name}={path}: cannot write there ({reason}). Choose another folder.") from error


def _write_probe(folder: str) -> None:
    before = None if file_io.is_remote(folder) else os.stat(folder)
    probe = os.path.join(folder, f".writable-{secrets.token_hex(4)}")
    file_io.write_text(probe, "", synced=False)
    file_io.file_system(probe).remove(probe)
    if before is not None:
        with contextlib.suppress(OSError):  # the folder of another user
            os.utime(folder, ns=(before.st_atime_ns, before.st_mtime_ns))


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
        from ..runtime.files.schema import read_schema

        read_schema(fn_args.schema_path)
