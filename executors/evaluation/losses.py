"""Finds canonical name, task and `from_logits` of a compiled Keras loss, given by name, class, instance or function."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Mapping

from .plan import BINARY, MULTICLASS, RANKING, REGRESSION

_ALIASES = {
    "bce": "binary_crossentropy",
    "mse": "mean_squared_error",
    "mae": "mean_absolute_error",
    "mape": "mean_absolute_percentage_error",
    "msle": "mean_squared_logarithmic_error",
    "kld": "kl_divergence",
    "kullback_leibler_divergence": "kl_divergence",
    "huber_loss": "huber",
    "logcosh": "log_cosh",
    "cosine_proximity": "cosine_similarity",
    "categorical_cross_entropy": "categorical_crossentropy",
    "binary_cross_entropy": "binary_crossentropy",
    "sparse_categorical_cross_entropy": "sparse_categorical_crossentropy",
}
TASK_OF_LOSS: Mapping[str, str] = {
    "binary_crossentropy": BINARY,
    "binary_focal_crossentropy": BINARY,
    "sigmoid_focal_crossentropy": BINARY,
    "sigmoid_cross_entropy": BINARY,
    "hinge": BINARY,
    "squared_hinge": BINARY,
    "sparse_categorical_crossentropy": MULTICLASS,
    "categorical_crossentropy": MULTICLASS,
    "categorical_focal_crossentropy": MULTICLASS,
    "softmax_cross_entropy": MULTICLASS,
    "sparse_softmax_cross_entropy": MULTICLASS,
    "categorical_hinge": MULTICLASS,
    "kl_divergence": MULTICLASS,
    "mean_squared_error": REGRESSION,
    "root_mean_squared_error": REGRESSION,
    "mean_absolute_error": REGRESSION,
    "mean_absolute_percentage_error": REGRESSION,
    "mean_squared_logarithmic_error": REGRESSION,
    "huber": REGRESSION,
    "log_cosh": REGRESSION,
    "poisson": REGRESSION,
    "cosine_similarity": REGRESSION,
    "pinball_loss": REGRESSION,
}
HINGES = ("hinge", "squared_hinge", "categorical_hinge")
_RANKING = "tensorflow_ranking"


def name_of(loss: object) -> str:
    """Returns the canonical name of a loss, such as "binary_crossentropy"; "" for a custom function or class.

    Args:
      loss: The loss given to `compile` for one output: a name, a class, an instance, a function, or a partial of one.
    """
    loss = _function_of(loss)
    if isinstance(loss, str):
        return _canonical(loss)
    if (getattr(loss, "__module__", "") or type(loss).__module__).startswith(_RANKING):
        return RANKING
    if isinstance(loss, functools.partial):
        return name_of(loss.func)
    kind = loss if inspect.isclass(loss) or inspect.isroutine(loss) else type(loss)
    names = [_canonical(one.__name__) for one in (kind.__mro__ if inspect.isclass(kind) else [kind])]
    return next((name for name in names if name in TASK_OF_LOSS), "")


def from_logits_of(loss: object) -> bool | None:
    """Returns a loss's `from_logits`, or Keras's default for crossentropies without it; None if unknown."""
    if isinstance(loss, functools.partial):
        given = loss.keywords.get("from_logits")
        return bool(given) if given is not None else from_logits_of(loss.func)
    function = _function_of(loss)
    for found in (getattr(loss, "from_logits", None), _configured(loss), getattr(function, "from_logits", None)):
        if isinstance(found, bool):
            return found
    if isinstance(loss, str) or inspect.isfunction(function) or inspect.isclass(loss):
        return False if name_of(loss).endswith("crossentropy") else None  # Keras's default
    return None


def _canonical(name: str) -> str:
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    return _ALIASES.get(snake, snake)


def _function_of(loss: object) -> object:
    """Returns the function in a Keras `LossFunctionWrapper`; other losses unchanged."""
    return getattr(loss, "fn", loss) if type(loss).__name__ == "LossFunctionWrapper" else loss


def _configured(loss: object) -> object:
    if isinstance(loss, str) or inspect.isclass(loss) or not hasattr(loss, "get_config"):
        return None
    try:
        config = loss.get_config()
    except Exception:  # raised by a custom class
        return None
    if not isinstance(config, Mapping):
        return None
    options = config.get("fn_kwargs")
    return config.get("from_logits", options.get("from_logits") if isinstance(options, Mapping) else None)
