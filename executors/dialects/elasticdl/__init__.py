"""The dialect of ElasticDL: a model file with a Keras model, its `feed`, loss, optimizer and metrics.

    parts.py      the parts of a file, in every form they had
    options.py    the flags of ElasticDL's command that still mean something
    job.py        the file as a Keras model that `fit` can run
    metrics.py    its metrics
    loop.py       training with ElasticDL's evaluations, checkpoints and limits
    export.py     the SavedModel
    run.py        training, evaluation and prediction, put together

The names that model files import from ElasticDL are provided by `executors/elasticdl/`.
"""

from __future__ import annotations

from types import ModuleType

from ...options import TrainingOptions
from .. import RunFn
from .detection import FEED_NAMES
from .parts import MODEL_NAMES

NEEDS = "a Keras model (custom_model, CustomModel or model), feed or dataset_fn, loss and optimizer"


def matches(module: ModuleType, function: str | None) -> str:
    """Returns evidence when a module has the parts that every model file has; `function` may name the model."""
    feed = next((name for name in FEED_NAMES if callable(getattr(module, name, None))), None)
    model = next((name for name in (function, *MODEL_NAMES) if name and hasattr(module, name)), None)
    if feed is None or model is None or not callable(getattr(module, "loss", None)) or not hasattr(module, "optimizer"):
        return ""
    return f"it defines {model}, {feed}, loss and optimizer"


def run_fn(module: ModuleType, function: str | None, options: TrainingOptions) -> RunFn:
    """Returns a `run_fn` that trains the module's model and exports it."""
    del options

    def run(fn_args: object) -> object:
        from .run import train  # imports TensorFlow, with the Keras that was chosen

        return train(module, function, fn_args)  # type: ignore[arg-type]

    return run
