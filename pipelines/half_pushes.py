"""Models that a pipeline has pushed in part only, when a disk was full or a run was ended, are taken away again."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from ..executors import file_io
from ..executors.saved_model import MODEL_FILES


@contextlib.contextmanager
def removed_when_failed(folder: str) -> Iterator[None]:
    """Removes what a block that fails leaves of a model in the folder where models are pushed to.

    TFX's Pusher copies a model file by file, `saved_model.pb` last, into a folder that TensorFlow Serving may watch.

    Args:
      folder: Where models are pushed to, each one in a folder of its own.
    """
    before = _names(folder)
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):  # it must not hide what went wrong before
            for name in _names(folder) - before:
                pushed = os.path.join(folder, name)
                if not any(file_io.exists(os.path.join(pushed, file)) for file in MODEL_FILES):
                    file_io.rmtree(pushed)
        raise


def _names(folder: str) -> set[str]:
    return set(file_io.listdir(folder)) if file_io.isdir(folder) else set()
