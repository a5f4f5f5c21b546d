"""Corrects the losses of single outputs that Keras 3 (up to 3.15) logs.

Keras averages the loss of each output over the batches, weighted by their static sizes. Traced functions do not know
these, so that a last batch of 6 examples counts as much as one of 32. Losses with the same name, such as those of two
outputs of one layer, overwrite each other in the logs. The total loss has neither fault, nor has Keras 2.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from .patching import replaced

if TYPE_CHECKING:
    import keras

_MODULE = "keras.src.trainers.compile_utils"
_SIZE = "_size_of_batch"


@contextlib.contextmanager
def output_losses_corrected() -> Iterator[None]:
    """Weights the losses of outputs by the number of examples in each batch, for models that are fitted in the block.

    The second of two losses with the same name `x_loss` becomes `x_1_loss`, as in Keras 2. Does nothing unless Keras 3
    is imported.
    """
    kind = getattr(sys.modules.get(_MODULE), "CompileLoss", None)
    if not hasattr(kind, "metrics"):  # releases before 3.4 log no losses of outputs
        yield
        return
    with replaced(kind, "build", _build), replaced(kind, "call", _call):
        yield


def _build(original: Callable[..., object], loss: Any, *args: object) -> None:
    original(loss, *args)
    names: Counter[str] = Counter()
    for metric in loss.metrics:
        number = names[metric.name]
        names[metric.name] += 1
        if number:
            metric.name = f"{metric.name.removesuffix('_loss')}_{number}_loss"
        metric.update_state = functools.partial(_update_state, loss, metric.update_state)


def _update_state(loss: Any, original: Callable[..., object], values: object, sample_weight: object = None) -> object:
    return original(values, getattr(loss, _SIZE) if sample_weight is None else sample_weight)


def _call(
    original: Callable[..., object], loss: Any, y_true: object, y_pred: keras.KerasTensor, *args: Any, **options: Any
) -> object:
    keras = sys.modules["keras"]
    first = keras.tree.flatten(y_pred)[0]
    setattr(loss, _SIZE, keras.ops.cast(keras.ops.shape(first)[0], "float32"))
    try:
        return original(loss, y_true, y_pred, *args, **options)
    finally:
        delattr(loss, _SIZE)  # a tensor of a graph must not outlive its tracing
