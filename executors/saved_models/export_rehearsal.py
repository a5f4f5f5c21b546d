"""Rehearses an export before training: traces and saves the untrained model, without its variables, in memory.

What is wrong with a signature, `feed` in prediction or a serving input function is then found before the first step. A
rehearsal changes nothing: generators of random numbers continue where they were, and no file is left.

Usage:

    with rehearsal() as folder:
        export(model, folder, write=write_graph)
"""

from __future__ import annotations

import contextlib
import random
import time
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from absl import logging

from ..compat.keras import layer_seeds, restore_layer_seeds, seed_generators
from ..compat.tensorflow import seed_generator
from ..runtime.logs.exceptions import add_note, gist_of

if TYPE_CHECKING:
    import keras

# Of files that training may still write, of memory and of the disk: no reason to refuse a training that may succeed.
_UNDECIDED = (
    OSError,
    MemoryError,
    tf.errors.NotFoundError,
    tf.errors.ResourceExhaustedError,
    tf.errors.PermissionDeniedError,
    tf.errors.UnavailableError,
)
_NOTE = (
    "Raised when the export was rehearsed, before the first training step: the same export after training would fail "
    "in the same way."
)


@contextlib.contextmanager
def rehearsal(model: keras.Model | None = None) -> Iterator[str]:
    """Gives a folder in memory to export to; an error that leaves the block gets a note that says when it was raised.

    An error about files or memory is logged only: it need not come again after training.

    Args:
      model: The Keras model that is traced in the block and trained afterwards, if there is one.
    """
    folder = f"ram://rehearsal-{uuid.uuid4().hex}"
    begin = time.perf_counter()
    with contextlib.ExitStack() as stack:
        stack.callback(_remove, folder)
        stack.enter_context(_random_state_kept(model))
        try:
            yield folder
        except _UNDECIDED as error:
            logging.debug("The export could not be rehearsed: %s: %s", type(error).__name__, gist_of(error))
        except Exception as error:
            add_note(error, _NOTE)
            raise
    logging.debug("The export was rehearsed in %.2f s.", time.perf_counter() - begin)


def _remove(folder: str) -> None:
    with contextlib.suppress(tf.errors.OpError):
        if tf.io.gfile.exists(folder):
            tf.io.gfile.rmtree(folder)


@contextlib.contextmanager
def _random_state_kept(model: keras.Model | None) -> Iterator[None]:
    """Puts the generators that tracing a model may draw from back to where they were before the block."""
    found: list[Any] = [random, seed_generator(), *seed_generators()]
    generators = [generator for generator in found if generator is not None]
    states = [generator.getstate() for generator in generators]
    of_numpy = np.random.get_state()
    seeds = layer_seeds(model)
    try:
        yield
    finally:
        for generator, state in zip(generators, states, strict=True):
            generator.setstate(state)
        np.random.set_state(of_numpy)
        restore_layer_seeds(seeds)
