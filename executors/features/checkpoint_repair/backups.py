"""Moves a damaged backup of Keras 3's `BackupAndRestore` aside, before `fit` restores it.

It keeps one backup, so that `fit` then starts from the beginning. HDF5 files have no checksums: changed weights are not
noticed. With `double_checkpoint`, Keras itself restores its second backup.

    with backups_repaired(source.files):
        run_fn(fn_args)
"""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ...checkpoints.damage import set_aside
from ...compat.keras import is_keras_2
from ...keras.interception import KerasCall, KerasObserver, keras_of, may_use_keras
from ...runtime.files import file_io
from ...runtime.observers import observed_by

if TYPE_CHECKING:
    import keras


def backups_repaired(files: Sequence[str]) -> contextlib.AbstractContextManager[object]:
    """Moves damaged backups aside in the block.

    Args:
      files: The module's source files. Keras is not imported if they neither mention nor import it.
    """
    return observed_by(_Repair()) if may_use_keras(files) else contextlib.nullcontext()


class _Repair(KerasObserver):
    def fit(self, call: KerasCall, proceed: Callable[[], keras.callbacks.History]) -> keras.callbacks.History:
        if not is_keras_2(call.model):
            kind = keras_of(call.model).callbacks.BackupAndRestore
            for callback in call.callbacks:
                if isinstance(callback, kind) and not getattr(callback, "double_checkpoint", False):
                    _repair(os.fspath(callback.backup_dir))
        return proceed()


def _repair(folder: str) -> None:
    for name in sorted(file_io.listdir(folder)) if file_io.isdir(folder) else ():
        if not _is_complete(os.path.join(folder, name)):
            set_aside(folder, f"{name} is cut off or garbled", "the fit starts from the beginning")
            return


def _is_complete(path: str) -> bool:
    content = file_io.read_bytes(path) if path.endswith((".h5", ".json")) else b"{}"
    try:
        if path.endswith(".h5"):
            _read_datasets(content)
        else:
            json.loads(content)
    except Exception:  # h5py raises errors of many types for garbled files
        return False
    return True


def _read_datasets(content: bytes) -> None:
    import h5py

    def read(name: str, item: h5py.Group | h5py.Dataset) -> None:
        del name
        if isinstance(item, h5py.Dataset):
            item[()]

    with h5py.File(io.BytesIO(content)) as file:
        file.visititems(read)
