"""Packs a training module into a content-addressed zip archive and uploads it to a location that a job can read.

    archive = pack(find_source("trainers/taxi.py", scratch))
    reference = archive.upload("gs://bucket/code")      # "taxi@gs://bucket/code/taxi-3f2a….zip"

The archive holds the module and every user file that it imports, each at the path where `import` looks for it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import os
import posixpath
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence

from ...executors.errors import InputError, TrainerError
from ...executors.modules import archive as module_archive
from ...executors.modules.source import ModuleSource, find_source, imports_in, is_below
from ...executors.runtime.files import file_io

_ZIP_DATE = (1980, 1, 1, 0, 0, 0)  # earliest date of the zip format; a fixed date gives the same files the same archive


@dataclasses.dataclass(frozen=True)
class CodeArchive:
    """A zip archive of code, in memory.

    Attributes:
      module: Dotted name of the module in it, followed by the function's name if there is one; the part of the module
        reference before the "@".
      content: The archive's bytes.
    """

    module: str
    content: bytes

    def path(self, root: str) -> str:
        """Returns the archive's path below a folder or URI; its name contains a digest of the content."""
        digest = hashlib.sha256(self.content).hexdigest()[: module_archive.NAME_CHARACTERS]
        return posixpath.join(root, f"{self.module.rpartition('.')[2]}-{digest}.zip")

    def reference(self, root: str) -> str:
        """Returns the module reference `name@archive.zip`, as `generic-trainer train` takes it for MODULE."""
        return f"{self.module}@{self.path(root)}"

    def upload(self, root: str) -> str:
        """Writes the archive unless it already exists, and returns the module reference.

        Raises:
          InputError: When the archive cannot be written.
        """
        path = self.path(root)
        try:
            if not file_io.exists(path):
                with file_io.atomic_write(path) as part, file_io.file_system(part).open(part, mode="wb") as file:
                    file.write(self.content)
        except Exception as error:  # TensorFlow's errors for remote file systems are not OSErrors
            raise InputError(f"--code-root {root}: cannot write there ({type(error).__name__}: {error}).") from error
        return self.reference(root)


def path_in_reference(reference: str) -> str | None:
    """Returns the file or archive in a module reference; None for a dotted name such as `package.module`."""
    if archive := module_archive.archive_in(reference):
        return archive.place
    return reference if "/" in reference or reference.endswith(".py") else None


def make_archive(source: ModuleSource, is_available: Callable[[str], bool]) -> CodeArchive | None:
    """Returns an archive of a module for remote machines; None if they already have the module.

    Args:
      source: The module.
      is_available: Returns whether a path exists with the same content on the remote machines.

    Raises:
      InputError: When the module cannot be packed.
    """
    place = path_in_reference(source.reference)
    if place is None or is_available(place):
        return None
    if archive := module_archive.archive_in(source.reference):  # an archive on this machine
        return CodeArchive(archive.module, archive.read())
    return pack(source)


def pack(source: ModuleSource, top: str = "") -> CodeArchive:
    """Packs a module and its imports into an archive.

    Args:
      source: The module.
      top: The folder to which the module's dotted name is relative (default: the root found by `find_source`).

    Raises:
      InputError: When two files would have the same name in the archive, or when the module or one of its imports
        would not be found there.
    """
    top = os.path.realpath(top or source.roots[-1])
    folders = [top, *(os.path.realpath(entry or ".") for entry in sys.path)]
    members: dict[str, str] = {}
    for path in source.files:
        for name in _archive_names(path, top, folders, source.files):
            if members.setdefault(name, path) != path:
                raise InputError(f"{source.reference}: {members[name]} and {path} would both be {name} in the archive.")
    module = os.path.relpath(source.path, top).removesuffix(".py").removesuffix(f"{os.sep}__init__")
    dotted = ".".join([*module.split(os.sep), *([source.function] if source.function else [])])
    archive = CodeArchive(dotted, _zip(members))
    _require_complete(archive, source)
    return archive


def _archive_names(path: str, top: str, folders: Sequence[str], files: Sequence[str]) -> list[str]:
    """Returns a file's names in the archive: two if the code also imports the top folder by its name.

    Files of a model zoo do that: they are imported both from the zoo and from the zoo's parent folder.
    """
    folder = next((folder for folder in folders if path.startswith(folder + os.sep)), os.path.dirname(path))
    name = os.path.relpath(path, folder)
    own_name = os.path.basename(top)
    imported = {target.partition(".")[0] for file in files for level, target in imports_in(file) if not level}
    return [name, os.path.join(own_name, name)] if folder == top and own_name in imported else [name]


def _zip(members: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(members):
            archive.writestr(zipfile.ZipInfo(name.replace(os.sep, "/"), _ZIP_DATE), file_io.read_bytes(members[name]))
    return buffer.getvalue()


def _require_complete(archive: CodeArchive, source: ModuleSource) -> None:
    """Raises InputError unless the module and all its imports are found in the archive, as the job will do it."""
    with tempfile.TemporaryDirectory(prefix="generic-trainer-") as scratch:
        path = os.path.join(scratch, "code.zip")
        with open(path, "wb") as file:
            file.write(archive.content)
        try:
            found = find_source(f"{archive.module}@{path}", scratch)
        except TrainerError as error:
            raise InputError(f"{source.reference} cannot be packed: {str(error).replace(f'@{path}', '')}") from error
        inside = [one for one in found.files if is_below(one, [scratch])]
        if {file_io.read_bytes(one) for one in inside} < {file_io.read_bytes(one) for one in source.files}:
            missing = {os.path.basename(one) for one in source.files} - {os.path.basename(one) for one in inside}
            raise InputError(
                f"{source.reference} cannot be packed: the archive's module would not find {sorted(missing)}."
            )
