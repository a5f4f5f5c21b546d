"""The dialect of TFX up to 0.29: `trainer_fn(fn_args, schema)` returns an Estimator, a TrainSpec and an EvalSpec."""

from __future__ import annotations

from ..base import Dialect


class TrainerFnDialect(Dialect):
    """Modules with `trainer_fn(fn_args, schema)`; see `TrainerFnAdapter`."""

    needs = "a function trainer_fn(fn_args, schema) that returns a dict with estimator, train_spec and eval_spec"
    entry_points = ("trainer_fn",)
    keras = "2"
    no_scaffold = "it requires Estimators, which TensorFlow removed in 2.16"
