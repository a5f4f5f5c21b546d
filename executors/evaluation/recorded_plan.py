"""Reads the evaluation plan from the record of a training run."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator

from ..monitoring import run_record
from ..monitoring.run_record import RunRecord
from ..runtime.files import file_io
from .plan import EvaluationPlan

_MODEL, _MODEL_RUN = "model", "model_run"
_FINGERPRINT = "fingerprint.pb"  # unique to each export


def recorded_plan_of(model: str) -> EvaluationPlan | None:
    """Returns the plan in the record of the run that trained a model; None if there is no record or plan."""
    record = record_of(model)
    return record.part("evaluation_plan", EvaluationPlan) if record.parts.get("evaluation_plan") else None


def record_of(model: str) -> RunRecord:
    """Returns the record of the run that trained a model; without an `id` if there is none.

    Finds the record by the directory layouts of `train` and the Trainer component: `OUT/model/Format-Serving` has its
    record in `OUT/model_run`, `Trainer/model/7/Format-Serving` in `Trainer/model_run/7`. A model in `ROOT/serving/9` is
    the copy of one in `ROOT/Trainer/model`, which has the same fingerprint.

    Args:
      model: The SavedModel's folder.
    """
    for trained in (model, *_originals(model)):
        if place := _run_folder(trained):
            return run_record.read(place)
    return RunRecord.missing()


def _run_folder(model: str) -> str | None:
    artifact = os.path.dirname(model.rstrip("/"))
    above, name = os.path.split(artifact)
    if name == _MODEL:
        return os.path.join(above, _MODEL_RUN)
    if os.path.basename(above) == _MODEL:
        return os.path.join(os.path.dirname(above), _MODEL_RUN, name)
    return None


def _originals(model: str) -> Iterator[str]:
    """Yields the models in the pipeline root around a pushed model that have the same fingerprint."""
    root, fingerprint = file_io.parent(file_io.parent(model)), os.path.join(model, _FINGERPRINT)
    if os.path.basename(model.rstrip("/")).isdigit() and file_io.exists(fingerprint):
        content = file_io.read_bytes(fingerprint)
        for path in file_io.glob(os.path.join(glob.escape(root), "*", _MODEL, "*", "Format-Serving", _FINGERPRINT)):
            if file_io.read_bytes(path) == content:
                yield os.path.dirname(path)
