"""Private names of Keras: of Keras 2 (2.15 to tf-keras 2.21), of Keras 3 (3.3 to 3.15), or of both.

Most of them are looked up on a model, a layer or a variable, which may be of either.
"""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import keras
    import tensorflow as tf
    from tf_keras.src.backend import RandomGenerator

# Keras 3's implementation within `keras`, which imports modules that may not be there: nobody else's import of a name
# below `keras` that does not exist begins with one of these.
IMPLEMENTATION = ("src", "_tf_keras", "api")

# What Keras 3 binds while it is imported and uses in functions only; the second takes pandas' classes in hand at once.
DEFERRABLE = ("keras._tf_keras.keras.wrappers", "keras.src.trainers.data_adapters.array_slicing", "keras.wrappers")

# Attributes that Keras 2 and 3 set on every callback, beside the public ones.
OF_CALLBACKS = ("_model", "_supports_tf_logs", "_chief_worker_only", "_keras_api_names")

# The attribute by which a TensorBoard callback of Keras 2 and 3 knows that it will profile batches.
TENSORBOARD_TRACES = "_should_trace"

# The variable of a Keras 2 model that its train function reads at each step. `compile` sets it, and no public name
# takes its place: the property without the underscore came with Keras 3.
STEPS_PER_EXECUTION = "_steps_per_execution"

_KERAS_2_BACKENDS = ("tf_keras.src.backend", "keras.src.backend", "keras.backend")


def is_keras_2(model: keras.Model) -> bool:
    """Returns whether a model is one of Keras 2, under whichever name that is installed.

    A package's version says it as well, but a model's class may be of a package that copied Keras.
    """
    return hasattr(model, "_training_state")


class _Counters:
    """What Keras 2's `fit` asks for the epoch to begin with."""

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch

    def maybe_load_initial_counters_from_ckpt(self, steps: object, epoch: int, mode: object) -> tuple[int, int]:
        del steps, epoch, mode
        return self._epoch, 0


def begin_at(model: keras.Model, epoch: int | None) -> None:
    """Makes a `fit` that begins, begin with an epoch; None for the one that it was given.

    For `on_train_begin`: the argument `initial_epoch` of `fit` has been read by then. Keras's own BackupAndRestore sets
    the same attributes.
    """
    if is_keras_2(model):
        model._training_state = None if epoch is None else _Counters(epoch)
    else:
        model._initial_epoch = epoch


def steps_per_execution(model: keras.Model) -> tf.Variable | None:
    """Returns the variable of a Keras 2 model that holds its steps per execution; None for Keras 3."""
    return getattr(model, STEPS_PER_EXECUTION, None)


def train_counter(model: keras.Model) -> tf.Variable | None:
    """Returns the variable in which a Keras 2 model counts its steps, which its train function adds to; else None."""
    return getattr(model, "_train_counter", None)


def is_built(optimizer: keras.optimizers.Optimizer) -> bool:
    """Returns whether an optimizer has its variables; the public name came with Keras 3."""
    return bool(getattr(optimizer, "built", False) or getattr(optimizer, "_built", False))


def tensor_variable(variable: object) -> tf.Variable | None:
    """Returns the `tf.Variable` within a variable of Keras 3; None for others.

    `variable.value` is a tensor, or within a `fit` under a strategy another object.
    """
    return getattr(variable, "_value", None)


def layers_of(model: object) -> list[keras.Layer]:
    """Returns a model and all layers below it; empty for what is no Keras model.

    `model.layers` has those of the first level, and `submodules` calls properties, which may raise.
    """
    return list(getattr(model, "_flatten_layers", tuple)())


def seed_generators() -> list[random.Random]:
    """Returns the generators from which Keras 2 draws seeds, one in each Keras 2 that is imported and has drawn.

    Their positions can be neither read nor restored by a public function; Keras 3 keeps its own in variables.
    """
    backends = (sys.modules.get(name) for name in _KERAS_2_BACKENDS)
    found = (getattr(getattr(backend, "_SEED_GENERATOR", None), "generator", None) for backend in backends)
    return [generator for generator in dict.fromkeys(found) if isinstance(generator, random.Random)]


def layer_seeds(model: keras.Model) -> list[tuple[RandomGenerator, int | None]]:
    """Returns, for each layer of Keras 2 that draws, the object that counts its seed up when it is traced,
    and the seed.

    To put the seeds back, see `restore_layer_seeds`; there is no public name for them.
    """
    found: list[Any] = [getattr(layer, "_random_generator", None) for layer in layers_of(model)]
    return [(generator, generator._seed) for generator in found if hasattr(generator, "_seed")]


def restore_layer_seeds(seeds: list[tuple[RandomGenerator, int | None]]) -> None:
    """Sets the seeds that `layer_seeds` returned."""
    for generator, seed in seeds:
        generator._seed = seed
