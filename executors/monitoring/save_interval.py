"""The checkpoint interval that loses the least time when workers die.

A death costs the steps since the last checkpoint, half an interval on average; a checkpoint costs the time that it
blocks training. The sum is least for an interval of sqrt(2 · cost of a checkpoint · time between deaths): J. W. Young,
"A first order approximation to the optimum checkpoint interval", 1974; J. T. Daly, 2006, adds terms that matter only if
checkpoints are not much shorter than the time between deaths.

On a Ray cluster, the interval is computed for each try from what the tries before it have measured. All workers get the
same number of steps, in an environment variable, because they save together. It replaces the default interval of every
dialect, which calls `measured_steps`; an interval that the user sets is kept:

| dialect                    | default                                           | where it is replaced                |
| -------------------------- | ------------------------------------------------- | ----------------------------------- |
| Keras, `callbacks`         | one worker: 60 s, several: 500 steps              | `keras/callbacks.py`                |
| Estimators                 | `RunConfig`: 600 s                                | `estimator/measured_interval.py`    |
| other dialects             | the framework's                                   | where the dialect reads its options |
"""

from __future__ import annotations

import math
import os

VARIABLE = "GENERIC_TRAINER_SAVE_STEPS"
CLUSTER_STEPS = 500  # default interval of several workers, which cannot save by time because their clocks differ
ASSUMED_SAVE_SECONDS = 1.0  # if a worker died before the first checkpoint
_MIN_SAVE_SECONDS = 0.001  # a snapshot of a tiny model takes less than its measurement is exact


def optimal_steps(save_seconds: float, seconds_between_deaths: float, steps_per_second: float) -> int:
    """Returns the optimal number of steps between checkpoints; at least 1.

    Args:
      save_seconds: How long a checkpoint blocks training.
      seconds_between_deaths: Mean time between deaths of any worker.
      steps_per_second: Speed of the training.
    """
    seconds = math.sqrt(2 * max(save_seconds, _MIN_SAVE_SECONDS) * seconds_between_deaths)
    return max(1, round(seconds * steps_per_second))


def measured_steps() -> int | None:
    """Returns the number of steps between checkpoints that was computed for this process; None without deaths."""
    text = os.environ.get(VARIABLE, "")
    return int(text) if text else None
