"""Has every `Model.fit` of a block done by a function that is given the original one: how a module's training is seen.

    def fit(original, model, *args, **options):
        return original(model, *args, **options)

    with fits_by(fit):
        run_fn(fn_args)

It works for the Model class of `tf.keras` and for those of other Keras packages that are imported; of two that are
entered one in the other, the inner one is called first.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ..modules.keras_version import KERAS_PACKAGES


@contextlib.contextmanager
def fits_by(fit: Callable[..., Any], method: str = "fit") -> Iterator[None]:
    """Puts a function in the place of `Model.fit`, or of another method, while a block runs."""
    with contextlib.ExitStack() as stack:
        for model_class in _model_classes():
            stack.enter_context(replaced(model_class, method, fit))
        yield


def listed(callbacks: Any) -> list[Any]:
    """Returns the argument `callbacks` of `fit` as a list."""
    if callbacks is None:
        return []
    return list(callbacks) if isinstance(callbacks, (list, tuple)) else [callbacks]


def may_use_keras(files: Sequence[str]) -> bool:
    """Whether a module's source files name Keras, or it is imported anyway, as Keras 3 is by TensorFlow."""
    is_imported = "tf_keras" in sys.modules or ("keras" in sys.modules and not os.environ.get("TF_USE_LEGACY_KERAS"))
    return is_imported or any(b"keras" in Path(file).read_bytes() for file in files)


def _model_classes() -> list[Any]:
    import tensorflow as tf

    classes = [tf.keras.Model]
    for package in KERAS_PACKAGES:
        model_class = getattr(sys.modules.get(package), "Model", None)
        if model_class is not None and model_class not in classes:
            classes.append(model_class)
    return classes


@contextlib.contextmanager
def replaced(owner: Any, name: str, instead: Callable[..., Any]) -> Iterator[None]:
    """Puts a function in the place of another one, which it gets as its first argument, while a block runs."""
    original = getattr(owner, name)
    own = name in vars(owner)

    @functools.wraps(original)
    def called(*args: Any, **options: Any) -> Any:
        return instead(original, *args, **options)

    setattr(owner, name, called)
    try:
        yield
    finally:
        if own:
            setattr(owner, name, original)
        else:
            delattr(owner, name)
