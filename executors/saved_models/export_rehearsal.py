"""Export dry run before training: traces the untrained model and saves it, without its variables, in memory.

Errors in a signature, in `feed` for prediction or in a serving input function then show up before the first training
step. A rehearsal has no side effects: it restores the state of random number generators, and leaves no files.

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
from ..runtime.logs.exceptions import add_note, one_line_message

if TYPE_CHECKING:
    import keras

# Errors that may not recur after training: files that training may still write, lack of memory or disk space.
_INCONCLUSIVE = (
    OSError,
    MemoryError,
    tf.errors.NotFoundError,
    tf.errors.ResourceExhaustedError,
    tf.errors.PermissionDeniedError,
    tf.errors.UnavailableError,
)
_NOTE = (
    "Raised in a dry run of the export before the first training step: the export after training would fail in the "
    "same way."
)


@contextlib.contextmanager
def rehearsal(model: keras.Model | None = None) -> Iterator[str]:
    """Provides an in-memory folder to export to; adds a note about the rehearsal to errors raised in the block.

    Suppresses errors about files, memory or access and logs them at debug level, as they may not recur after training.

    Args:
      model: The Keras model that is traced in the block and trained afterwards; None without one.
    """
    folder = f"ram://rehearsal-{uuid.uuid4().hex}"
    begin = time.perf_counter()
    with contextlib.ExitStack() as stack:
        stack.callback(_remove, folder)
        stack.enter_context(_restored_random_state(model))
        try:
            yield folder
        except _INCONCLUSIVE as error:
            logging.debug(
                "The dry run of the export was abandoned: %s: %s", type(error).__name__, one_line_message(error)
            )
        except Exception as error:
            add_note(error, _NOTE)
            raise
    logging.debug("The dry run of the export took %.2f s.", time.perf_counter() - begin)


def _remove(folder: str) -> None:
    with contextlib.suppress(tf.errors.OpError):
        if tf.io.gfile.exists(folder):
            tf.io.gfile.rmtree(folder)


@contextlib.contextmanager
def _restored_random_state(model: keras.Model | None) -> Iterator[None]:
    """Restores the random number generators that tracing a model may use to their state before the block."""
    candidates: list[Any] = [random, seed_generator(), *seed_generators()]
    generators = [generator for generator in candidates if generator is not None]
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
