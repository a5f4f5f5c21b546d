"""Compares the predictions of two models in a separate process, which imports TensorFlow.

models = [ComparedModel("one/model/Format-Serving", plan), ComparedModel("two/model/Format-Serving", other_plan)]
run_model_comparison(models, ["iris/eval/examples.tfrecord"], seconds=10).outputs[0].metrics
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from absl import logging

from ..engines import child_process
from ..errors import TrainerError
from ..runtime.files.json_data import JsonData, from_json
from ..runtime.logs.exceptions import one_line_message
from .model_comparison import ComparedModel, ModelComparison

_WORKER = f"{__package__}.model_comparison_worker"  # imports TensorFlow
_LONGEST_FACTOR, _LONGEST_LOAD = 10, 120.0  # of the time limit, and seconds more, after which the process is ended


@dataclasses.dataclass(frozen=True)
class ModelComparisonRequest(JsonData):
    """Request to the process; see `run_model_comparison`."""

    models: Sequence[ComparedModel]
    files: Sequence[str]
    seconds: float


def run_model_comparison(models: Sequence[ComparedModel], files: Sequence[str], *, seconds: float) -> ModelComparison:
    """Returns the comparison of two models; never raises: without a comparison, `problem` is the reason.

    Args:
      models: The two models.
      files: Files of labeled examples, raw ones if there is a Transform graph.
      seconds: Time limit for reading the examples; see `sample_of`.
    """
    try:
        state = child_process.run(
            _WORKER,
            ModelComparisonRequest(models, files, seconds).to_json(),
            environment={"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1"},
            timeout=_LONGEST_FACTOR * seconds + _LONGEST_LOAD,
            quiet=True,
            what="comparison",
        )
    except TrainerError as error:
        return ModelComparison(problem=str(error))
    except Exception as error:  # the models are the user's: any error of theirs must not end the command
        logging.info("The models could not be compared.", exc_info=True, extra={"kept_only": True})
        return ModelComparison(problem=f"{type(error).__name__}: {one_line_message(error)}")
    return from_json(ModelComparison, state, "The comparison", finite=False)
