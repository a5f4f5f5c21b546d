"""Writing a file so that there is all of it or nothing: a part file beside it that takes its name at the end."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from . import file_io


@contextlib.contextmanager
def whole_file(path: str) -> Iterator[str]:
    """Gives the path of a part file to write, which becomes `path` when the block ends well.

    Ends it otherwise, with an error or Ctrl-C, the part file is removed and what was at `path` is still there.

        with whole_file("predictions.csv") as part:
            write(part)
    """
    file_io.makedirs(file_io.parent(path))
    part = f"{path}.part-{os.getpid()}"
    files = file_io.file_system(path)
    try:
        yield part
        files.rename(part, path, overwrite=True)
    except BaseException:
        if file_io.exists(part):
            files.remove(part)
        raise
