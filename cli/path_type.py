"""The click types of options that name files: paths, which are checked when the command line is parsed, and references.

    @click.option("--data", type=PLACE)          # --data PLACE
    @click.argument("module", type=MODULE_NAME)

In a `--config` file, a value of these types is relative to that file.
"""

from __future__ import annotations

import os

import click

from ..executors.errors import InputError
from ..executors.runtime.files import file_kinds, user_paths
from ..executors.runtime.files.object_store import is_in_store
from ..executors.runtime.files.output_file import STDOUT, is_stdout, require_output

_OUTPUT = "--output"
_OUTPUT_FOLDERS = (_OUTPUT, "--pipeline-root", "--push-to")
_REMOTE_COMMANDS = ("compile", "submit")  # paths other than --output may be on the file systems of other machines
SUBMITTED = "submitted"  # `obj` of the context in which the command line of a job is parsed: all its paths are remote
_STORE_COMMANDS = ("train", "show", "report")  # read and write s3://, see executors/features/object_stores


class PathType(click.Path):
    """A path with shell completion.

    Args:
      kind: DIR, FILE, GLOB or PLACE, as in the help.
    """

    def __init__(self, kind: str) -> None:
        super().__init__(file_okay=kind != "DIR", dir_okay=True)
        self.name = kind.lower()  # click shows it in upper case

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | os.PathLike[str]:
        """Returns the value after checking it; as an output, /dev/stdout becomes "-".

        "-" and the default are not checked.

        Raises:
          click.BadParameter: When it is not a valid path of its kind.
        """
        if param is None or not isinstance(value, str) or value in (STDOUT, param.default):
            return value
        what = max(param.opts, key=len)
        if what == _OUTPUT and is_stdout(value):
            return STDOUT
        try:
            user_paths.require_valid(value, what)
            if ctx is None or ctx.obj != SUBMITTED:
                self._check(value, what, str(ctx.command.name) if ctx else "")
        except InputError as error:
            raise click.BadParameter(str(error), ctx, param) from error
        return value

    def _check(self, value: str, what: str, command: str) -> None:
        if command in _REMOTE_COMMANDS and what != _OUTPUT:
            return
        user_paths.require_scheme(value, what)
        if is_in_store(value) and command not in (*_STORE_COMMANDS, *_REMOTE_COMMANDS):
            raise InputError(
                f"{what} {value}: TensorFlow has no file system for this scheme, and this command no copies, "
                "as `train` has. Copy the files, or mount the bucket as a folder."
            )
        if what == _OUTPUT and self.name == "file":
            require_output(value, what)
        elif what in _OUTPUT_FOLDERS:
            user_paths.require_writable_kind(value, what, folder=self.name == "dir")
        else:
            file_kinds.require_readable_kind(value, what)

    def relative_to(self, folder: str, value: str) -> str:
        """Returns a path in a folder; absolute paths, URIs and "-" unchanged."""
        return _in_folder(folder, value)


class ReferenceType(click.types.StringParamType):
    """A text that may name a file, such as a module.

    Args:
      name: The placeholder in the help, in lower case.
    """

    def __init__(self, name: str = "text") -> None:
        self.name = name

    def relative_to(self, folder: str, value: str) -> str:
        """Returns FILE, MODULE@ARCHIVE or @FILE with the path in a folder; the value if it may be something else."""
        name, at, place = value.rpartition("@")
        path = os.path.normpath(os.path.join(folder, place))
        is_file = place and "://" not in value and (value.startswith("@") or os.path.exists(path))
        return f"{name}{at}{path}" if is_file else value


class _UrlType(ReferenceType):
    """A file or a URL, which is not checked."""

    def relative_to(self, folder: str, value: str) -> str:
        """Returns a path in a folder; URLs unchanged."""
        return _in_folder(folder, value)


class _ModuleType(PathType):
    """A module's file, which is checked, or its name."""

    def relative_to(self, folder: str, value: str) -> str:
        """Returns a reference to a module in a folder."""
        return MODULE_NAME.relative_to(folder, value)


def _in_folder(folder: str, value: str) -> str:
    return value if "://" in value or value in ("", STDOUT) else os.path.normpath(os.path.join(folder, value))


DIR, FILE, GLOB, PLACE = map(PathType, ("DIR", "FILE", "GLOB", "PLACE"))
URL = _UrlType("url")
MODULE_FILE = _ModuleType("FILE")
MODULE_NAME = ReferenceType()
JSON = ReferenceType("json|@file")
BY_METAVAR = {"DIR": DIR, "FILE": FILE, "GLOB": GLOB, "PLACE": PLACE, "URL": URL}  # of options of other packages
