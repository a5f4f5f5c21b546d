"""Creates and runs a whole pipeline on the local machine: from a data folder to an evaluated, pushed model.

    outcome = run_pipeline(LocalPipeline(data="taxi/", module_file="taxi_keras.py", label="big_tip"))
    outcome.pushed_model

Beam runs the steps in this process; training runs in a subprocess. A second run takes the outputs of unchanged steps
from the cache.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from typing import TypedDict

from absl import logging
from tfx.orchestration import pipeline
from tfx.orchestration.portable.tfx_runner import IrBasedRunner

from ...executors.compat import beam
from ...executors.compat.tfx import contents_in_cache_keys
from ...executors.dialects.needs import choose_keras
from ...executors.engines import fork_server
from ...executors.errors import InputError
from ...executors.modules.libraries import libraries_of
from ...executors.modules.pipeline_modules import PipelineModules, find_modules
from ...executors.monitoring.step_progress import progress_of_steps
from ...executors.preflight import stamp
from ...executors.runtime.files import content_digests, file_io, storage_errors
from ...executors.runtime.files.json_data import read_json
from ...executors.runtime.files.temporary_folder import require_temporary_folder
from ...executors.runtime.logs.remembered_error import pop_remembered_error
from ...executors.runtime.process.surroundings import require_shared_memory, require_tensorflow_can_run
from ...executors.runtime.process.termination import raise_if_ended
from ...executors.training import metadata_pointer
from ...executors.training.run_lock import hold_run_lock
from ..definition.examples import example_gen_for, is_split_with_test
from ..definition.options import PipelineOptions, notices_of, with_findings
from ..definition.pipeline_root import PLAIN_DATA, ROOT_MARKER, convert_data_in_root, foreign_entries
from ..definition.steps import FINGERPRINTS, beam_args_of, steps_of
from ..history.metadata_errors import require_store, store_identity, translate_pipeline_error
from ..history.metadata_store import SQLITE, connection_config
from ..history.metadata_url import display_url
from ..reporting.sections import write_newest_report
from . import cached_outputs
from .beam_folders import temporary_beam_folder
from .data_steps import BackgroundCheck, changes_data_steps, compile_pipeline, run_data_steps, run_other_steps
from .outcome import Outcome, outcome_of
from .step_failures import one_line_error, track_steps


class _Marker(TypedDict):
    pipeline_name: str


@dataclasses.dataclass(frozen=True)
class LocalPipeline(PipelineOptions):
    """Options of a pipeline that runs on the local machine.

    Attributes:
      runner: "beam" for TFX's BeamDagRunner (default), "local" for its LocalDagRunner.
      metadata: `mysql://user@host:port/database` (for its password see `connection_config`), or a SQLite file
        (default: `metadata.sqlite` in the root).
    """

    runner: str = "beam"
    metadata: str = ""


def run_pipeline(options: LocalPipeline) -> Outcome:
    """Runs the pipeline, adds the pipeline's sections to the training report, and returns the results.

    Raises:
      InputError: When data, schema or root cannot be used, or another run is active in the root; raised before any
        step starts.
      ModuleError: When there is no such module.
      TrainerError: From the Trainer step, as `executors.training.run.train` raises it.
      Exception: Exceptions of the user's module, with their original type and traceback.
    """
    data, changes = convert_data_in_root(options.data, options.pipeline_root)
    for change in changes:
        logging.info("%s", change)
    with _modules_of(options) as modules:
        return run_with_modules(dataclasses.replace(options, data=data), modules)


def run_with_modules(
    options: LocalPipeline,
    modules: PipelineModules,
    check: BackgroundCheck | None = None,
    *,
    on_start: Callable[[], object] = lambda: None,
) -> Outcome:
    """Runs the pipeline like `run_pipeline`, but with modules that were already found and data as they are.

    Args:
      options: The pipeline's options.
      modules: Its modules.
      check: A running check: the steps before training run at the same time, the others use its findings.
      on_start: Called when every precondition holds, before the first write to the root.
    """
    dag = _create(options, modules)
    _log_notices(options, modules)
    if options.runner == "beam":
        from tfx.orchestration.beam.beam_dag_runner import BeamDagRunner as Runner
    else:
        from tfx.orchestration.local.local_dag_runner import LocalDagRunner as Runner
    url = _metadata_url(options)
    runner = Runner()
    if options.training.isolate:  # imports TensorFlow for the Trainer in the background
        keras = choose_keras(options.training.keras, modules.trainer.files, beside=modules.files)
        fork_server.prepare(keras.environment(), libraries_of(modules.trainer.files))
    with (
        _claimed_root(dag, url),
        contents_in_cache_keys(FINGERPRINTS),
        cached_outputs.verified(dag),
        _deterministic_order(options),
        beam.lookups_cached(),
        beam.no_state_cache(),
        beam.in_process_by_default(),
        temporary_beam_folder(),
    ):
        on_start()
        if check is None:
            with _original_errors(dag, url):
                runner.run(dag)
        else:
            dag = _run_checked(runner, options, modules, dag, check)
    name = dag.pipeline_info.pipeline_name
    outcome = outcome_of(dag.metadata_connection_config, name, display_url(url))
    write_newest_report(url, name)
    return outcome


def _run_checked(
    runner: IrBasedRunner,
    options: LocalPipeline,
    modules: PipelineModules,
    dag: pipeline.Pipeline,
    check: BackgroundCheck,
) -> pipeline.Pipeline:
    """Runs the data steps during the check, then the others; returns the pipeline with the check's findings.

    Data steps that fail run again if the check has found that the module needs other settings of them.
    """
    url = _metadata_url(options)
    tried, failure = compile_pipeline(dag), None
    with check.stops_on_failure():
        try:
            with _original_errors(dag, url):
                run_data_steps(runner, tried)
        except Exception as error:
            failure = error
    dag = _create(with_findings(options, check.require_passed()), modules)
    if failure is not None:
        if not changes_data_steps(dag, tried):
            raise failure
        logging.warning("The steps run again with the settings that the check has found, after %r.", failure)
    with _original_errors(dag, url):
        run_other_steps(runner, dag, tried)
    return dag


@contextlib.contextmanager
def _original_errors(dag: pipeline.Pipeline, url: str) -> Iterator[None]:
    """Raises the exception of a failed step as it was raised there, or one line for a failure inside TFX."""
    store = store_identity(url)
    pop_remembered_error()  # discards an exception of an earlier run
    with track_steps() as steps, progress_of_steps(lambda: steps.running):
        try:
            yield
        except Exception as error:
            _restore_marker(dag)
            raise_if_ended()  # Beam replaces a signal's exception
            if (original := pop_remembered_error()) is not None:
                if storage_errors.find_in_text(str(original)) is None and (
                    summary := one_line_error(original, steps.running)
                ):
                    raise summary from original
                raise original from original.__cause__
            if (
                translated := translate_pipeline_error(error, url, store) or storage_errors.find_in_text(str(error))
            ) is not None:
                raise translated from error  # from a TFX step without `remember_error`
            if summary := one_line_error(error, steps.running):
                raise summary from error
            raise


def _deterministic_order(options: LocalPipeline) -> contextlib.AbstractContextManager[None]:
    """Makes ExampleGen write examples in the order in which it reads them, the same in every run.

    It writes through Beam's Reshuffle, which gives each example a random key and groups examples with equal keys. With
    Beam's 2**32 keys a collision occurs in one of a hundred runs with 10,000 examples, and in every run with 100,000. A
    collision moves an example to another position, which changes the trained model. Beam has no public option for more
    keys. Without Beam arguments of the user there is one worker, which needs no Reshuffle.
    """
    return beam.reshuffle_buckets(2**62) if options.beam_args else beam.without_reshuffle()


def create_pipeline(options: LocalPipeline) -> pipeline.Pipeline:
    """Builds the pipeline without running it, for any of TFX's runners.

    Raises:
      InputError: When data, schema or root cannot be used.
      ModuleError: When there is no such module.
    """
    with _modules_of(options) as modules:
        _log_notices(options, modules)
        dag = _create(options, modules)
    _claim_root(dag)
    return dag


def _log_notices(options: LocalPipeline, modules: PipelineModules) -> None:
    for notice in notices_of(options, modules):
        logging.info("%s", notice)


@contextlib.contextmanager
def _modules_of(options: LocalPipeline) -> Iterator[PipelineModules]:
    with tempfile.TemporaryDirectory(prefix="generic-trainer-") as scratch:
        yield find_modules(options.module_file, scratch, options.transform_module, options.tuner_module)


def _create(options: LocalPipeline, modules: PipelineModules) -> pipeline.Pipeline:
    require_temporary_folder()
    require_shared_memory()
    require_tensorflow_can_run()
    root = os.path.abspath(options.pipeline_root)
    examples = example_gen_for(options.data, test_split=options.test_split)
    connection = connection_config(_metadata_url(options))
    if options.baseline_model and not file_io.exists(options.baseline_model):
        raise InputError(f"--baseline-model {options.baseline_model} does not exist.")
    name = options.name_for(modules.trainer)
    has_test_split = options.test_split or is_split_with_test(options.data)
    nodes = steps_of(options, modules, examples, has_test_split=has_test_split)
    with _explained_root_errors(root):
        _is_own_root(root, name)
    return pipeline.Pipeline(
        pipeline_name=name,
        pipeline_root=root,
        components=nodes,
        enable_cache=options.cache,
        metadata_connection_config=connection,
        beam_pipeline_args=beam_args_of(options),
    )


def _metadata_url(options: LocalPipeline) -> str:
    return options.metadata or os.path.join(os.path.abspath(options.pipeline_root), SQLITE)


def _restore_marker(dag: pipeline.Pipeline) -> None:
    """Restores the marker in a root that was deleted during the run and recreated by the steps, for the next run."""
    root, name = dag.pipeline_info.pipeline_root, dag.pipeline_info.pipeline_name
    known = {SQLITE, f"{SQLITE}-journal", "logs", "serving", stamp.FILE, PLAIN_DATA, metadata_pointer.FILE_NAME}
    known |= {content_digests.FILE_NAME, cached_outputs.FILE_NAME, cached_outputs.OUTPUTS_WITHOUT_METADATA}
    known |= {node.id for node in dag.components}
    with contextlib.suppress(OSError):  # must not hide the original error
        marker = os.path.join(root, ROOT_MARKER)
        if file_io.isdir(root) and not file_io.exists(marker) and not set(file_io.listdir(root)) - known:
            file_io.write_text(marker, json.dumps({"pipeline_name": name}) + "\n")


@contextlib.contextmanager
def _claimed_root(dag: pipeline.Pipeline, url: str) -> Iterator[None]:
    """Locks the pipeline's root for the block, and marks a new one; nothing is written if the run is refused."""
    root = dag.pipeline_info.pipeline_root
    if file_io.is_remote(url):
        require_store(dag.metadata_connection_config, url)
    _claim_root(dag)
    with hold_run_lock(root):
        if not file_io.is_remote(url):
            require_store(dag.metadata_connection_config, url)  # creates a SQLite file, which needs the root
        yield


def _claim_root(dag: pipeline.Pipeline) -> None:
    """Marks a folder as the root of this pipeline, so that two pipelines never mix their artifacts in one folder.

    Raises:
      InputError: When the root belongs to another pipeline, holds other files, or cannot be written.
    """
    root, name = dag.pipeline_info.pipeline_root, dag.pipeline_info.pipeline_name
    with _explained_root_errors(root):
        if dag.metadata_connection_config.HasField("sqlite"):
            file_io.makedirs(file_io.parent(dag.metadata_connection_config.sqlite.filename_uri))
        if not _is_own_root(root, name):
            if file_io.exists(marker := os.path.join(root, ROOT_MARKER)):
                logging.warning("%s is damaged, and is written again.", marker)
            file_io.write_text(marker, json.dumps({"pipeline_name": name}) + "\n")


def _is_own_root(root: str, name: str) -> bool:
    """Whether a folder is the root of this pipeline already, and not a new one.

    Raises:
      InputError: When the root belongs to another pipeline, or holds other files.
    """
    if file_io.exists(os.path.join(root, ROOT_MARKER)):
        owner = _owner_of(root)
        if owner and owner != name:
            raise InputError(
                f"--pipeline-root {root} belongs to the pipeline {owner!r}; this one is {name!r}. "
                "Choose another root, or give the same --pipeline-name."
            )
        return bool(owner)
    if foreign_entries(root):
        raise InputError(
            f"--pipeline-root {root} is not empty and not the root of a generic-trainer pipeline. Choose another root."
        )
    return False


def _owner_of(root: str) -> str:
    """Returns the name of the pipeline in a root's marker; "" if the marker is damaged."""
    with contextlib.suppress(InputError):
        return read_json(os.path.join(root, ROOT_MARKER), _Marker, "The marker")["pipeline_name"]
    return ""


@contextlib.contextmanager
def _explained_root_errors(root: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(f"--pipeline-root {root}: cannot write there ({reason}). Choose another root.") from error
