"""The return type of a module's `tuner_fn`.

def tuner_fn(fn_args):
    tuner = keras_tuner.RandomSearch(build_model, objective="val_loss", max_trials=10,
                                     directory=fn_args.working_dir, project_name="search")
    return TunerFnResult(tuner, {"x": train, "validation_data": validation})
"""

from __future__ import annotations

from typing import Any, NamedTuple

KERAS_TUNER_PREFIX = "tuner/"  # prefix of hyperparameters that KerasTuner adds, such as Hyperband's epochs


class TunerFnResult(NamedTuple):
    """The result of `tuner_fn`: `tfx.components.TunerFnResult` without importing TFX.

    Attributes:
      tuner: A KerasTuner, or any object with its `search` and `get_best_hyperparameters` methods.
      fit_kwargs: Keyword arguments for `tuner.search`.
    """

    tuner: Any
    fit_kwargs: dict[str, Any]
