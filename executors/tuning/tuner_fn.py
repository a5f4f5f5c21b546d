"""What a module's `tuner_fn` returns.

def tuner_fn(fn_args):
    tuner = keras_tuner.RandomSearch(build_model, objective="val_loss", max_trials=10,
                                     directory=fn_args.working_dir, project_name="search")
    return TunerFnResult(tuner, {"x": train, "validation_data": validation})
"""

from __future__ import annotations

from typing import Any, NamedTuple

KERAS_TUNERS_OWN = "tuner/"  # what it keeps among the module's hyper-parameters, as Hyperband its epochs, begins so


class TunerFnResult(NamedTuple):
    """The result of `tuner_fn`: `tfx.components.TunerFnResult`, without all that importing that one brings in.

    Attributes:
      tuner: A KerasTuner, or anything else with its `search` and `get_best_hyperparameters`.
      fit_kwargs: What `tuner.search` is called with.
    """

    tuner: Any
    fit_kwargs: dict[str, Any]
