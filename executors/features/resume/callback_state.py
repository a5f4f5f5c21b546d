"""What a `fit` changes in a callback: its attributes, and the files of Keras's ModelCheckpoint and TensorBoard.

A module may use these after `fit`, even if the fit is restored instead of run.
Usage:

    state = CallbackState(callback)
    model.fit(..., callbacks=[callback])
    attributes, files = state.changes(), state.files()
    ...
    restore(another_callback, attributes, folder_with_the_files)
"""

from __future__ import annotations

import base64
import glob
import io
import json
import os
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from ...compat.keras import CALLBACK_ATTRIBUTES
from ...keras.weight_fingerprints import fingerprint
from ...modules.keras_version import KERAS_PACKAGES
from ...runtime.files import file_io

if TYPE_CHECKING:
    import keras

_KERAS_SETS = ("model", "params", "validation_data", *CALLBACK_ATTRIBUTES)
_SCALARS = (bool, int, float, str, np.generic, type(None))
_ARRAY, _TUPLE = "__array__", "__tuple__"
_PLACEHOLDER = re.compile(r"\{[^}]*\}")


class NotSavedError(Exception):
    """A fit's state cannot be kept; the message gives the reason."""


class CallbackState:
    """A callback's state before a `fit`.

    Args:
      callback: A callback that the module passes to `fit`.
    """

    def __init__(self, callback: keras.callbacks.Callback) -> None:
        self._callback = callback
        self._summaries = _summaries(callback)
        self._files = _files(callback)

    def changes(self) -> dict[str, object]:
        """Returns the attributes that the fit has changed, as JSON values.

        Raises:
          NotSavedError: If a changed attribute has a value other than plain values and arrays.
        """
        changed = {}
        for name, summary in _summaries(self._callback).items():
            before = self._summaries.get(name)
            if summary is before or (isinstance(summary, str) and summary == before):
                continue
            value = vars(self._callback)[name]
            try:
                changed[name] = _packed(value, _encoded)
            except TypeError:
                raise NotSavedError(
                    f"{type(self._callback).__name__}.{name} is a {type(value).__name__}, which cannot be saved"
                ) from None
        return changed

    def files(self) -> dict[str, str]:
        """Returns {relative path: path} of the files that the fit has written, because a failed run's may be deleted.

        A ModelCheckpoint overwrites the files of earlier fits; a TensorBoard only adds files.
        """
        files = _files(self._callback)
        if _is_a(self._callback, "TensorBoard"):
            return {name: path for name, path in files.items() if name not in self._files}
        return files


def restore(callback: keras.callbacks.Callback, changes: Mapping[str, object], folder: str) -> None:
    """Sets the attributes that `changes` returned, and copies the files in a folder to their places if missing."""
    for name in file_io.files_below(folder) if file_io.isdir(folder) else ():
        if not file_io.exists(target := os.path.join(_folder(callback), name)):
            file_io.copy(os.path.join(folder, name), target)
    for name, value in changes.items():
        setattr(callback, name, _unpacked(value))


def _summaries(callback: keras.callbacks.Callback) -> dict[str, object]:
    """Returns the attributes as JSON with fingerprints of arrays; those that cannot be saved as they are.

    Of Keras's callbacks only scalars count: their other state, such as copies of weights, is not needed after the fit.
    """
    is_of_keras = _is_of_keras(type(callback))
    summaries: dict[str, object] = {}
    for name, value in vars(callback).items():
        if name in _KERAS_SETS or (is_of_keras and (name.startswith("_") or not isinstance(value, _SCALARS))):
            continue
        try:
            summaries[name] = json.dumps(_packed(value, fingerprint))
        except TypeError:
            summaries[name] = value
    return summaries


def _files(callback: keras.callbacks.Callback) -> dict[str, str]:
    """Returns {path relative to `_folder`: path} of the files that a callback and earlier ones have written there."""
    folder, paths = _folder(callback), []
    if _is_a(callback, "TensorBoard"):
        paths = file_io.glob(os.path.join(glob.escape(folder), "*", "events.out.tfevents.*"))
    elif _is_a(callback, "ModelCheckpoint"):
        for path in file_io.glob(_PLACEHOLDER.sub("*", os.fspath(callback.filepath)) + "*"):
            below = file_io.files_below(path) if file_io.isdir(path) else [""]  # Keras 2 also saves folders
            paths += [os.path.join(path, name).rstrip(os.sep) for name in below]
    return {os.path.relpath(path, folder): path for path in paths}


def _folder(callback: keras.callbacks.Callback) -> str:
    """Returns the folder of a callback's files, which may differ between attempts; "" if it has none."""
    path = os.fspath(getattr(callback, "filepath", ""))
    return os.fspath(getattr(callback, "log_dir", "")) or os.path.dirname(path.partition("{")[0])


def _is_a(callback: keras.callbacks.Callback, name: str) -> bool:
    return any(kind.__name__ == name and _is_of_keras(kind) for kind in type(callback).__mro__)


def _is_of_keras(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in KERAS_PACKAGES


def _packed(value: object, encode: Callable[[np.ndarray], str]) -> object:
    """Returns a JSON form of plain values and arrays.

    Raises:
      TypeError: For other values.
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "numpy") or isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        if array.dtype.hasobject:
            raise TypeError
        return {_ARRAY: encode(array)}
    if isinstance(value, (list, tuple)):
        packed = [_packed(item, encode) for item in value]
        return {_TUPLE: packed} if isinstance(value, tuple) else packed
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _packed(item, encode) for key, item in value.items()}
    raise TypeError


def _encoded(array: np.ndarray) -> str:
    file = io.BytesIO()
    np.savez(file, array)  # unlike `np.save`, it has a checksum
    return base64.b64encode(file.getvalue()).decode()


def _unpacked(value: object) -> object:
    if isinstance(value, list):
        return [_unpacked(item) for item in value]
    if isinstance(value, dict):
        if value.keys() == {_ARRAY}:
            with np.load(io.BytesIO(base64.b64decode(value[_ARRAY])), allow_pickle=False) as arrays:
                array = arrays["arr_0"]
            return array if array.shape else array[()]
        if value.keys() == {_TUPLE}:
            return tuple(_unpacked(item) for item in value[_TUPLE])
        return {name: _unpacked(item) for name, item in value.items()}
    return value
