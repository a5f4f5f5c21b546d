"""Makes a submitted job's files available on other machines: checks paths of data and outputs, and packs the code."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence

from ..executors.errors import InputError
from ..executors.modules import archive as module_archive
from ..executors.modules.pipeline_modules import find_modules
from ..executors.modules.source import find_source
from ..executors.runtime.files import file_io
from ..pipelines.definition.code_archive import CodeArchive, pack, path_in_reference
from ..pipelines.submit.submission import is_reachable
from .submitted_command import CommandLine

# Parameters with the path of a file or folder, except caches, which may be local to each container.
_PATHS = (
    *("train_files", "eval_files", "output", "schema", "transform_graph", "base_model", "hyperparameters", "data_view"),
    *("data", "pipeline_root", "push_to", "eval_config", "metadata", "baseline_model"),
)
_LOCAL_ONLY = ("pipeline_root", "push_to")  # TFX's local runners do not support URIs here


def require_reachable(line: CommandLine, folders: Sequence[str], in_image: Sequence[str]) -> None:
    """Checks that the job can access all paths of a command line, including defaults, on other machines.

    Args:
      line: The command line.
      folders: Folders that are mounted on the other machines.
      in_image: Folders in the image, which are read-only.

    Raises:
      InputError: When some paths cannot be accessed; the message lists all of them.
    """
    kind, bad = line.kind, []
    written = ("output", *kind.outputs, *_LOCAL_ONLY)
    for name in (*_PATHS, *kind.tables, *kind.outputs, *kind.inputs):
        values = line.values.get(name)
        for value in values if isinstance(values, tuple) else [values]:
            if not value or (name in kind.tables and _is_table(value)):
                continue
            readable = folders if name in written else (*folders, *in_image)
            if not is_reachable(value, readable):
                default = "" if any(parameter.name == name for parameter, _ in line.given) else " (its default)"
                bad.append(f"{line.flag(name)} {value}{default}")
            elif name in _LOCAL_ONLY and file_io.is_remote(value):
                raise InputError(
                    f"{line.flag(name)} {value}: a pipeline needs a folder here, not a URI. Mount one with --volume."
                )
    if bad:
        raise InputError(
            f"{', '.join(bad)}: on this machine only, but the job runs on others. Use URIs such as gs://bucket/…, or "
            "folders of a volume mounted with --volume CLAIM:/FOLDER."
        )


def _is_table(value: str) -> bool:
    return "/" not in value and not os.path.exists(value)


def pack_modules(
    line: CommandLine, code_root: str, folders: Sequence[str], in_image: Sequence[str]
) -> dict[str, CodeArchive]:
    """Packs the command line's modules into archives, except modules that the job can already access.

    Args:
      line: The command line.
      code_root: Folder or URI for the archives; "" if there is none: dotted names then refer to modules in the image.
      folders: Folders that are mounted on the other machines.
      in_image: Folders in the image.

    Returns:
      {parameter: archive}.

    Raises:
      ModuleError: When there is no such module.
      InputError: When a module is on this machine only and there is no `code_root`, or the job cannot read there.
    """
    if code_root and not is_reachable(code_root, folders):
        raise InputError(f"--code-root {code_root}: not readable from the job. Use a URI, or a folder of a volume.")
    archives = {}
    for name, reference in _references(line).items():
        place = path_in_reference(reference) or (reference if line.kind.file_in else None)
        if place and is_reachable(place, (*folders, *in_image)):
            continue
        if code_root:
            archives[name] = _pack_module(line, name, reference)
        elif place:
            dotted = "" if line.kind.file_in else ", or use package.module for a module in the image"
            raise InputError(
                f"{line.flag(name)} {reference} is a file on this machine, which the job cannot read. Set --code-root "
                f"URI to upload an archive of it{dotted}. If the image contains its folder, add --in-image FOLDER."
            )
    return archives


def _references(line: CommandLine) -> dict[str, str]:
    """Returns the command line's modules by parameter; for `run` also a file that is found near it for Transform."""
    name = line.kind.module
    given = {key: line.values[key] for key in (name, "transform_module", "tuner_module") if line.values.get(key)}
    place = path_in_reference(given[name])
    if line.name != "run" or "transform_module" in given or place is None or not file_io.exists(place):
        return given
    with _import_path(), tempfile.TemporaryDirectory(prefix="generic-trainer-") as scratch:
        modules = find_modules(given[name], scratch)
    if modules.transform is not None and modules.transform != modules.trainer:
        given["transform_module"] = modules.transform.reference
    return given


def _pack_module(line: CommandLine, name: str, reference: str) -> CodeArchive:
    if archive := module_archive.archive_in(reference):
        if not file_io.exists(archive.place):
            raise InputError(f"{line.flag(name)}: the archive {archive.place} does not exist.")
        return CodeArchive(archive.module or "model_zoo", archive.read())
    with _import_path(), tempfile.TemporaryDirectory(prefix="generic-trainer-") as scratch:
        if line.kind.file_in:
            return pack(find_source(line.kind.file_in(line.values), scratch), reference)
        return pack(find_source(reference, scratch))


@contextlib.contextmanager
def _import_path() -> Iterator[None]:
    """Adds the current folder to `sys.path` for the duration of the block, as the commands do."""
    before = list(sys.path)
    sys.path.insert(0, os.getcwd())
    try:
        yield
    finally:
        sys.path[:] = before
