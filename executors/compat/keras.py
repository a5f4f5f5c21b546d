"""Private names of Keras 2 (2.15 to tf-keras 2.21) and Keras 3 (3.3 to 3.15).

Most of them are looked up on a model, a layer or a variable, which may be of either version.
"""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import keras
    import tensorflow as tf
    from tf_keras.src.backend import RandomGenerator

# Modules that Keras 3 imports at import time but only uses in functions; the second one accesses pandas classes.
DEFERRABLE = ("keras._tf_keras.keras.wrappers", "keras.src.trainers.data_adapters.array_slicing", "keras.wrappers")

# Private attributes that Keras 2 and 3 set on every callback.
CALLBACK_ATTRIBUTES = ("_model", "_supports_tf_logs", "_chief_worker_only", "_keras_api_names")

# Attribute of the TensorBoard callback of Keras 2 and 3 for whether it profiles batches.
TENSORBOARD_TRACES = "_should_trace"

# Variable of a Keras 2 model that its train function reads at each step. `compile` sets it. There is no public name:
# the property without the underscore only exists in Keras 3.
STEPS_PER_EXECUTION = "_steps_per_execution"

_KERAS_2_BACKENDS = ("tf_keras.src.backend", "keras.src.backend", "keras.backend")


def is_keras_2(model: keras.Model) -> bool:
    """Returns whether a model is a Keras 2 model, regardless of the package's name.

    The package's version is not sufficient, because a model's class may be from a package that copied Keras.
    """
    return hasattr(model, "_training_state")


class _Counters:
    """The object from which Keras 2's `fit` gets its first epoch."""

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch

    def maybe_load_initial_counters_from_ckpt(self, steps: object, epoch: int, mode: object) -> tuple[int, int]:
        del steps, epoch, mode
        return self._epoch, 0


def set_first_epoch(model: keras.Model, epoch: int | None) -> None:
    """Sets the first epoch of a `fit` that is starting; None for its `initial_epoch` argument.

    For use in `on_train_begin`, when `fit` has already read `initial_epoch`. Keras's own BackupAndRestore sets the same
    attributes.
    """
    if is_keras_2(model):
        model._training_state = None if epoch is None else _Counters(epoch)
    else:
        model._initial_epoch = epoch


def steps_per_execution(model: keras.Model) -> tf.Variable | None:
    """Returns the variable with a Keras 2 model's steps per execution; None for Keras 3."""
    return getattr(model, STEPS_PER_EXECUTION, None)


def train_counter(model: keras.Model) -> tf.Variable | None:
    """Returns the variable with a Keras 2 model's step count, which its train function increments; else None."""
    return getattr(model, "_train_counter", None)


def is_built(optimizer: keras.optimizers.Optimizer) -> bool:
    """Returns whether an optimizer has created its variables; only Keras 3 has a public name for this."""
    return bool(getattr(optimizer, "built", False) or getattr(optimizer, "_built", False))


def tensor_variable(variable: object) -> tf.Variable | None:
    """Returns the `tf.Variable` within a Keras 3 variable; None for other objects.

    The public `variable.value` is a tensor, or another object within a `fit` under a strategy.
    """
    return getattr(variable, "_value", None)


def layers_of(model: object) -> list[keras.Layer]:
    """Returns a model and all layers below it; empty if the object is not a Keras model.

    `model.layers` only has the first level, and `submodules` evaluates properties, which may raise.
    """
    return list(getattr(model, "_flatten_layers", tuple)())


def seed_generators() -> list[random.Random]:
    """Returns the generators from which Keras 2 draws seeds: one for each imported Keras 2 that has drawn a seed.

    No public function reads or restores their state; Keras 3 keeps its generators' state in variables.
    """
    backends = (sys.modules.get(name) for name in _KERAS_2_BACKENDS)
    generators = (getattr(getattr(backend, "_SEED_GENERATOR", None), "generator", None) for backend in backends)
    return [generator for generator in dict.fromkeys(generators) if isinstance(generator, random.Random)]


def layer_seeds(model: keras.Model) -> list[tuple[RandomGenerator, int | None]]:
    """Returns each Keras 2 layer's random generator, which increments its seed when it is traced, with the seed.

    `restore_layer_seeds` restores the seeds; there is no public name for them.
    """
    generators: list[Any] = [getattr(layer, "_random_generator", None) for layer in layers_of(model)]
    return [(generator, generator._seed) for generator in generators if hasattr(generator, "_seed")]


def restore_layer_seeds(seeds: list[tuple[RandomGenerator, int | None]]) -> None:
    """Sets the seeds that `layer_seeds` returned."""
    for generator, seed in seeds:
        generator._seed = seed
