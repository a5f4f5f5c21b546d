"""Starts of the worker: the first, others with settings that its failure shows to be needed, and as an evaluator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from absl import logging

from ..dialects.restart import with_restarts
from ..engines.base import WorkerStart
from ..engines.training_request import TrainingResult
from ..modules.keras_version import KerasChoice
from .callbacks import ATTEMPT

if TYPE_CHECKING:
    from ..engines.base import Engine
    from .callbacks import Callbacks
    from .run_state import Run

_WORKER = f"{__package__}.worker"


def run_module(run: Run, around: Callbacks) -> None:
    """Runs the module, again if it turns out to need another Keras version or environment variables."""

    def attempt(keras: KerasChoice) -> None:
        run.keras, run.record.keras = keras, keras.to_record()
        _run_worker(run, around)

    with_restarts(run.keras, run.options, attempt, run.place.shares_batches)


def run_module_with(engine: Engine, run: Run, around: Callbacks) -> None:
    """Runs the module with another engine than that of the run."""
    usual, run.engine = run.engine, engine
    try:
        run_module(run, around)
    finally:
        run.engine = usual


def _run_worker(run: Run, around: Callbacks) -> None:
    logging.info("Keras %s: %s.", run.keras.version, run.keras.reason)
    run.variables, run.on_start = {}, []

    def on_start(pid: int) -> None:
        for function in run.on_start:
            function(pid)

    with around(ATTEMPT, run):
        variables = {**run.keras.environment(), **run.variables}
        state = run.engine.execute(WorkerStart(_WORKER, run.request().to_json(), variables, on_start))
        merge_result(state, run, around)


def merge_result(state: Mapping[str, Any], run: Run, around: Callbacks) -> None:
    """Records the worker's `TrainingResult`, unless it is empty because the worker was ended."""
    if not state:
        return
    run.result = result = TrainingResult.from_json(state)
    run.record.dialect = {"name": result.dialect, "reason": result.evidence}
    if result.keras:
        run.keras, run.record.keras = result.keras, result.keras.to_record()
    run.record.phases.update({f"training/{name}": round(took, 3) for name, took in result.phases.items()})
    around.merge(result.parts, run)
