"""Evaluation and prediction with an ElasticDL model file."""

from __future__ import annotations

from types import ModuleType

from ...fn_args import FnArgs
from .checkpoints import load_weights
from .data import batches, first_batch, open_split
from .export import features_of
from .job import build, make_job, required_parts
from .options import ElasticDLOptions
from .parts import EVALUATION, PREDICTION, Parts
from .predictions import Predictions


def evaluate(module: ModuleType, model_name: str | None, fn_args: FnArgs) -> dict[str, float]:
    """Evaluates the weights of `checkpoint_dir_for_init` on the validation data; returns the metrics by name.

    Raises:
      ModuleError: When a definition is missing or returns a wrong type.
      InputError: When there is no data or no checkpoint.
    """
    parts = required_parts(module, model_name, fn_args)
    records = open_split(parts, parts.options.validation_data or fn_args.eval_files, "validation_data")
    with records.reraising():
        validation = batches(parts, records, EVALUATION)
        job = make_job(parts, first_batch(validation, records))
        job.compile()
        load_weights(job.inner, parts.options.checkpoint_dir_for_init)
        values = job.evaluate(validation, verbose=0, return_dict=True)
    return {name: float(value) for name, value in values.items()}


def predict(module: ModuleType, model_name: str | None, fn_args: FnArgs) -> dict[str, float]:
    """Runs batch inference on the prediction data with the weights of `checkpoint_dir_for_init`.

    The predictions are passed to the file's processor, if any, and written as JSON lines to `predictions.jsonl` in
    `fn_args.serving_model_dir`.

    Returns:
      {"count": the number of predictions}.

    Raises:
      ModuleError: When a definition is missing or returns a wrong type.
      InputError: When there is no data or no checkpoint.
    """
    options = ElasticDLOptions.of(fn_args)
    parts = Parts(module, model_name, options)
    records = open_split(parts, options.prediction_data or fn_args.eval_files, "prediction_data")
    data = batches(parts, records, PREDICTION)
    model = parts.model()
    with records.reraising():
        build(model, features_of(first_batch(data, records)))
    load_weights(model, options.checkpoint_dir_for_init)
    with (
        records.reraising(),
        Predictions(model, parts.prediction_outputs_processor(), fn_args.serving_model_dir) as predictions,
    ):
        for batch in data:
            predictions.add(features_of(batch))
    return {"count": float(predictions.count)}
