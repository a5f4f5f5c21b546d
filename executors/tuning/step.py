"""The Tuner step of a pipeline: from artifacts and execution properties to the best hyperparameters of a search.

The outputs are those of TFX's Tuner: `best_hyperparameters.txt` with KerasTuner's configuration as JSON, and
`tuner_results.json` with a row for each trial. If the step is retried, an interrupted search resumes after its last
finished trial, provided that the module sets KerasTuner's directory to `fn_args.working_dir`.
"""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from absl import logging
from google.protobuf import json_format
from tfx.proto import tuner_pb2

from ..checkpoints.data_fingerprint import read_inputs
from ..checkpoints.directory import step_checkpoint_root, step_checkpoints
from ..checkpoints.fingerprint import compute_identity
from ..dialects.needs import choose_keras
from ..dialects.restart import with_restarts
from ..engines import child_process, fork_server
from ..engines.local import run_in_process
from ..engines.training_request import TrainingRequest
from ..errors import InputError
from ..modules.source import find_source
from ..monitoring import display
from ..options import TrainingOptions
from ..runtime.files import file_io
from ..runtime.files.artifact_layout import root_of_artifact
from ..runtime.files.content_digests import digests_in
from ..runtime.logs.setup import notebook_log_filter
from ..training.artifacts import Artifacts, common_fn_args
from .search import TUNER_FN, hyperparameters_text

if TYPE_CHECKING:
    from .search import SearchResult

BEST, RESULTS = "best_hyperparameters.txt", "tuner_results.json"  # as in tfx.components.tuner.executor
_WORKER = f"{__package__}.search"
_SEARCH = "search"  # name of the working folder


def tune_from_artifacts(inputs: Artifacts, outputs: Artifacts, properties: Mapping[str, object]) -> None:
    """Runs a search with the `tuner_fn` of the module named in the properties.

    Args:
      inputs: Artifacts by key: examples (required); transform_graph, schema and base_model if connected.
      outputs: Artifacts by key: best_hyperparameters and tuner_results.
      properties: Execution properties of TFX's Tuner, and the fields of `TrainingOptions` that the Tuner supports.

    Raises:
      TrainerError: If an input or the module is invalid, or no trial was completed.
      Exception: Exceptions raised by the module, with their original type and traceback.
    """
    _require_sequential(properties.get("tune_args"))
    options = TrainingOptions.from_exec_properties(properties)
    fn_args = common_fn_args(inputs, properties)
    fn_args.seed = options.seed
    [best], [results] = outputs["best_hyperparameters"], outputs["tuner_results"]
    reference, function = _module_of(properties)
    with notebook_log_filter(), tempfile.TemporaryDirectory(prefix="generic-trainer-") as scratch:
        source = find_source(reference, scratch)
        keras = choose_keras(options.keras, source.files)
        if options.isolate:
            fork_server.prepare(keras.environment())  # imports TensorFlow in the background
        function = function or source.function or TUNER_FN
        files = read_inputs(fn_args, digests_in(root_of_artifact(best.uri)))
        identity = compute_identity(fn_args, source, function, options, keras, files)
        with step_checkpoints(step_checkpoint_root(best.uri), identity, best.uri, is_estimator=False) as folder:
            fn_args.working_dir = os.path.join(folder.path, _SEARCH)
            request = TrainingRequest(source, function, fn_args, options, keras)
            search = with_restarts(
                keras, options, lambda choice: _run_search(dataclasses.replace(request, keras=choice))
            )
    file_io.write_text(os.path.join(best.uri, BEST), json.dumps(search["best"]))
    file_io.write_text(os.path.join(results.uri, RESULTS), json.dumps(search["trials"]))
    values = search["best"].get("values", {})
    best.set_string_custom_property("values", json.dumps(values))
    results.set_int_custom_property("trials", len(search["trials"]))
    results.set_string_custom_property("objective", search["objective"])
    if search["bad_records"]:
        results.set_int_custom_property("bad_records", search["bad_records"]["count"])
    if search["trials"]:
        best.set_float_custom_property(search["objective"], float(search["trials"][0]["score"]))
    logging.info("Best hyperparameters of %s trials: %s", len(search["trials"]), hyperparameters_text(values))


def _require_sequential(tune_args: Any) -> None:
    """Rejects more than one parallel trial; `tune_args` is the JSON text of TFX's TuneArgs, or None."""
    trials = json_format.Parse(tune_args or "{}", tuner_pb2.TuneArgs()).num_parallel_trials
    if trials > 1:
        raise InputError(
            f"tune_args: num_parallel_trials={trials}: this Tuner runs trials one after the other. Omit tune_args; for "
            "parallel trials, use TFX's extension for Vertex AI."
        )


def _module_of(properties: Mapping[str, Any]) -> tuple[str, str | None]:
    """Returns the module reference and the name of the function to run, by TFX's precedence."""
    module, tuner_fn = properties.get("module_file") or None, properties.get("tuner_fn") or None
    if not module and not tuner_fn:
        raise InputError("no module is given: set module_file (a path) or tuner_fn (package.module.function).")
    return (str(module), tuner_fn) if module else (str(tuner_fn), None)


def _run_search(request: TrainingRequest) -> SearchResult:
    keras, options = request.keras, request.options
    logging.info("Keras %s: %s.", keras.version, keras.reason)
    with display.watched_training() as variables:
        environment = keras.environment() | variables
        if not options.isolate:
            return cast("SearchResult", run_in_process(_WORKER, request.to_json(), environment=environment))
        found = child_process.run(
            _WORKER, request.to_json(), environment=environment, timeout=options.timeout, what="tuner", forked=True
        )
        return cast("SearchResult", found)
