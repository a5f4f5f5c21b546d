"""Finds environment variables that a module sets after TensorFlow and Keras, imported before it, have read them.

    with late_variables(source.files) as watch:
        import model           # raises LateVariables at its `import keras`
        watch.require_none()   # the module may import it later

A module can compute a value, set it under a condition or in a helper, so its source does not always show it.
"""

from __future__ import annotations

import builtins
import contextlib
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType, ModuleType, TracebackType
from typing import TypeAlias

from ..runtime.logs.exceptions import chain
from .early_variables import is_read_early

# Packages that a worker imports before the module, and that read variables when they are imported.
_READERS = ("tensorflow", "keras", "tf_keras")
# Importers that do not show what the module imports.
_NOT_THE_USERS = (*_READERS, __name__.partition(".")[0])
_Text: TypeAlias = "str | bytes | os.PathLike[str] | os.PathLike[bytes]"
# Modules that implement `os.environ`.
_OF_ENVIRONMENT = ("os", "_collections_abc")


class LateVariables(Exception):
    """The module has set variables to other values than TensorFlow and Keras have read.

    Attributes:
      variables: The variables with the module's values.
    """

    def __init__(self, variables: Mapping[str, str]) -> None:
        super().__init__(", ".join(variables))
        self.variables = variables


class VariableWatch:
    """Records the variables that the user's code sets in this thread.

    Args:
      files: The user's files. Variables that libraries set when they are imported do not count.
    """

    def __init__(self, files: Sequence[str]) -> None:
        self._files = frozenset(files)
        self._thread = threading.get_ident()
        self._before = dict(os.environ)
        self._names: set[str] = set()
        self._not_imported = set(_READERS)

    def record(self, name: _Text, caller: FrameType) -> None:
        """Records a variable if the user's code sets it."""
        if threading.get_ident() == self._thread and _setter(caller) in self._files:
            self._names.add(os.fsdecode(name))

    def imported(self, name: str, importer: str) -> None:
        """Checks the variables when code first imports a package that reads them; see `require_none`.

        Args:
          name: The dotted name of the imported module.
          importer: The dotted name of the importing one. What the worker itself and TensorFlow import does not count.
        """
        package = name.partition(".")[0]
        if package not in self._not_imported or importer.partition(".")[0] in _NOT_THE_USERS:
            return
        if threading.get_ident() == self._thread:
            self._not_imported.remove(package)
            self.require_none()

    def require_none(self) -> None:
        """Checks that the variables had the values that the user's code sets when the watch began.

        Raises:
          LateVariables: When they had not.
        """
        names = [name for name in sorted(self._names) if name in os.environ and is_read_early(name)]
        late = {name: os.environ[name] for name in names if os.environ[name] != self._before.get(name)}
        if late:
            raise LateVariables(late)


def _setter(frame: FrameType | None) -> str:
    while frame is not None and frame.f_globals.get("__name__") in _OF_ENVIRONMENT:
        frame = frame.f_back
    return os.path.realpath(frame.f_code.co_filename) if frame is not None else ""


def _remove_own_frames(trace: TracebackType | None) -> None:
    """Removes the frames of this file, one for each import statement, from the traceback of the user's exception."""
    while trace is not None:
        while trace.tb_next is not None and trace.tb_next.tb_frame.f_code.co_filename == __file__:
            trace.tb_next = trace.tb_next.tb_next
        trace = trace.tb_next


@contextlib.contextmanager
def late_variables(files: Sequence[str]) -> Iterator[VariableWatch]:
    """Watches `os.environ` and the import statements for the duration of the block."""
    watch = VariableWatch(files)
    put, load = os.putenv, builtins.__import__

    def putenv(name: _Text, value: _Text) -> None:
        watch.record(name, sys._getframe(1))
        put(name, value)

    def load_watched(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        if level == 0:
            watch.imported(name, str((globals or {}).get("__name__")))
        return load(name, globals, locals, fromlist, level)

    os.putenv, builtins.__import__ = putenv, load_watched
    try:
        yield watch
    except BaseException as error:
        for cause in chain(error):
            _remove_own_frames(cause.__traceback__)
        raise
    finally:
        os.putenv, builtins.__import__ = put, load
