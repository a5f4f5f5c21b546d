"""Applies the goals of the options to Keras and Estimators."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from absl import logging

from ... import run_context
from ...estimator.run_goals import RunGoals
from ...monitoring import progress
from ...runtime.observers import observed_by
from ...training.worker_callbacks import WorkerCallback
from .goal_callback import GoalObserver
from .options import best_goal, stop_goal


class EarlyStopping(WorkerCallback):
    """Applies `early_stop`, `best_model` and `stop_on_nan`."""

    order = 60

    @contextlib.contextmanager
    def around(self) -> Iterator[None]:
        """Applies them to all trainings of a block; logs a warning if a goal was set but nothing was trained."""
        options, args = self.request.options, self.request.fn_args
        goals = RunGoals(stop_goal(options.early_stop), best_goal(options.best_model))
        if goals.stop is None and goals.best is None and not options.stop_on_nan:
            yield
            return
        observer = GoalObserver(goals, options.stop_on_nan, args.checkpoint_dir or "", args.is_chief)
        with run_context.extended(goals), observed_by(observer), progress.stop_on_nan(options.stop_on_nan):
            yield
        for name, goal in (("early_stop", goals.stop), ("best_model", goals.best)):
            if goal is not None and not goals.are_used:
                logging.warning("%s=%s had no effect: the module ran no Keras fit and no Estimator.", name, goal)
