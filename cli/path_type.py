"""The click type of options with paths, which rejects invalid paths when the command line is parsed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..executors.errors import InputError
from ..executors.runtime.files import file_kinds, user_paths
from ..executors.runtime.files.object_store import is_in_store
from ..executors.runtime.files.output_file import STDOUT, is_stdout, require_output

if TYPE_CHECKING:
    import os

OUTPUT = "--output"
_OUTPUT_FOLDERS = (OUTPUT, "--pipeline-root", "--push-to")


class PathType(click.Path):
    """A path with shell completion.

    Args:
      kind: DIR, FILE, GLOB or PLACE, as in the help.
      is_local: Whether this machine accesses the path (default); other machines may have other file systems.
      has_stores: Whether the command works with object stores that TensorFlow cannot read.
    """

    def __init__(self, kind: str, is_local: bool = True, has_stores: bool = False) -> None:
        super().__init__(file_okay=kind != "DIR", dir_okay=True)
        self._kind, self._is_local, self._has_stores = kind, is_local, has_stores

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
        if what == OUTPUT and is_stdout(value):
            return STDOUT
        try:
            self._check(value, what)
        except InputError as error:
            raise click.BadParameter(str(error), ctx, param) from error
        return value

    def _check(self, value: str, what: str) -> None:
        user_paths.require_valid(value, what)
        if not self._is_local:
            return
        user_paths.require_scheme(value, what)
        if is_in_store(value) and not self._has_stores:
            raise InputError(
                f"{what} {value}: TensorFlow has no file system for this scheme, and this command no copies, "
                "as `train` has. Copy the files, or mount the bucket as a folder."
            )
        if what == OUTPUT and self._kind == "FILE":
            require_output(value, what)
        elif what in _OUTPUT_FOLDERS:
            user_paths.require_writable_kind(value, what, folder=self._kind == "DIR")
        else:
            file_kinds.require_readable_kind(value, what)
