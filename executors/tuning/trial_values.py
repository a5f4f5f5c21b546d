"""The hyperparameters that only a tuner sets, such as Hyperband's `tuner/epochs`, without running a trial.

trial_values(tuner.oracle)      # {"units": 32, "tuner/epochs": 4, "tuner/bracket": 2, "tuner/trial_id": "…", …}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .tuner_fn import KERAS_TUNER_PREFIX

if TYPE_CHECKING:
    import keras_tuner

TRIAL_ID = f"{KERAS_TUNER_PREFIX}trial_id"  # the trial that another one continues
_MOST_TRIALS = 1000  # of a bracket; Hyperband with 300 epochs and the factor 3 has 243 in its first one
_COMPLETED, _RUNNING = "COMPLETED", "RUNNING"  # keras_tuner.engine.trial.TrialStatus


def trial_values(oracle: keras_tuner.Oracle) -> dict[str, object]:
    """Returns the values that an oracle gives to a trial; for Hyperband, to one that continues another trial.

    Trials are only noted as completed, in memory: nothing is trained or written.

    Args:
      oracle: The oracle of a tuner that isn't used afterwards.
    """
    from keras_tuner.engine.trial import Trial

    if not hasattr(oracle, "populate_space"):  # KerasTuner before 1.1, or a tuner of another library
        return {}
    values: dict[str, object] = {}
    for number in range(_MOST_TRIALS):
        name = f"check-{number}"
        answer = oracle.populate_space(name)
        if answer["status"] != _RUNNING:
            break
        values = answer["values"] or {}
        if TRIAL_ID in values or not any(value.startswith(KERAS_TUNER_PREFIX) for value in values):
            break
        space = oracle.get_space()
        space.values = values
        oracle.trials[name] = Trial(space, trial_id=name, status=_COMPLETED)
        oracle.trials[name].score = 0.0
    return values
