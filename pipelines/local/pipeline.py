"""A whole pipeline on this machine: from a folder of data to a pushed, evaluated model.

    outcome = run_pipeline(LocalPipeline(data="taxi/", module_file="taxi_keras.py", label="big_tip"))
    outcome.pushed_model

The steps are run by Beam in this process, with training in a process of its own. A second run takes from the cache
what has not changed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import tempfile
from collections.abc import Iterator

from absl import logging
from tfx.orchestration import pipeline

from ...executors.compat.beam import reshuffle_buckets
from ...executors.errors import InputError
from ...executors.modules.pipeline_modules import PipelineModules, find_modules
from ...executors.preflight import stamp
from ...executors.runtime.beam_runner import in_process_by_default
from ...executors.runtime.files import file_io, storage_errors
from ...executors.runtime.files.temporary_folder import require_temporary_folder
from ...executors.runtime.logs.exceptions import last_remembered
from ...executors.training import metadata_pointer
from ...executors.training.run_lock import alone_in
from ..definition.examples import example_gen_for
from ..definition.options import PipelineOptions, notices_of
from ..definition.pipeline_root import PLAIN_DATA, ROOT_MARKER, plain_in_root
from ..definition.steps import beam_args_of, steps_of
from ..history.metadata_errors import explained_after, identity, require_store
from ..history.metadata_store import SQLITE, connection_config, shown
from ..reporting.sections import report_newest
from .beam_folders import removed_afterwards
from .outcome import Outcome, outcome_of
from .step_failures import in_a_line, steps_watched


@dataclasses.dataclass(frozen=True)
class LocalPipeline(PipelineOptions):
    """What to run, on what, and where.

    Attributes:
      runner: "beam" or "local".
      metadata: `mysql://user@host:port/database` (its password: see `connection_config`), or a SQLite file (default: in
        the root).
    """

    runner: str = "beam"
    metadata: str = ""


def run_pipeline(options: LocalPipeline) -> Outcome:
    """Runs the pipeline, adds to the training's report what the pipeline knows, and returns what came of it.

    Raises:
      InputError: When data, schema or root cannot be used, or another run is at work there, with nothing started.
      ModuleError: When there is no such module.
      TrainerError: From the Trainer step, as `executors.training.run.train` raises it.
      Exception: What the module raises in the Trainer step, with its own type and traceback.
    """
    data, changes = plain_in_root(options.data, options.pipeline_root)
    for change in changes:
        logging.info("%s", change)
    with _modules_of(options) as modules:
        return run_with_modules(dataclasses.replace(options, data=data), modules)


def run_with_modules(options: LocalPipeline, modules: PipelineModules) -> Outcome:
    """Does what `run_pipeline` does, with the modules that a command has found before."""
    dag = _created(options, modules)
    if options.runner == "beam":
        from tfx.orchestration.beam.beam_dag_runner import BeamDagRunner as Runner
    else:
        from tfx.orchestration.local.local_dag_runner import LocalDagRunner as Runner
    url = _metadata_url(options)
    require_store(dag.metadata_connection_config, url)
    store = identity(url)
    last_remembered()  # an earlier run's
    with steps_watched() as steps:
        try:
            with (
                alone_in(os.path.abspath(options.pipeline_root)),
                _in_order(),
                in_process_by_default(),
                removed_afterwards(),
            ):
                Runner().run(dag)
        except Exception as error:
            _claim_again(dag)
            if (real := last_remembered()) is not None:
                if storage_errors.in_text(str(real)) is None and (short := in_a_line(real, steps.running)):
                    raise short from real
                raise real from real.__cause__
            if (told := explained_after(error, url, store) or storage_errors.in_text(str(error))) is not None:
                raise told from error  # of TFX's own steps
            if short := in_a_line(error, steps.running):
                raise short from error
            raise
    name = dag.pipeline_info.pipeline_name
    outcome = outcome_of(dag.metadata_connection_config, name, shown(url))
    report_newest(url, name)
    return outcome


def _in_order() -> contextlib.AbstractContextManager[None]:
    """Has ExampleGen and Transform write examples in the order in which they read them, in every run the same.

    Beam's Reshuffle, by which they write, gives each a random key, and those with equal keys come one after the other.
    Of its 2**32 keys two are equal in one of a hundred runs with 10,000 examples, and in every run with 100,000: one
    example is in another place then, and the model another one. Beam has no other way to ask for more keys.
    """
    return reshuffle_buckets(2**62)


def create_pipeline(options: LocalPipeline) -> pipeline.Pipeline:
    """Builds the pipeline without running it, for any of TFX's runners.

    Raises:
      InputError: When data, schema or root cannot be used.
      ModuleError: When there is no such module.
    """
    with _modules_of(options) as modules:
        return _created(options, modules)


@contextlib.contextmanager
def _modules_of(options: LocalPipeline) -> Iterator[PipelineModules]:
    with tempfile.TemporaryDirectory(prefix="generic-trainer-") as scratch:
        yield find_modules(options.module_file, scratch, options.transform_module, options.tuner_module)


def _created(options: LocalPipeline, modules: PipelineModules) -> pipeline.Pipeline:
    require_temporary_folder()
    root = os.path.abspath(options.pipeline_root)
    examples = example_gen_for(options.data)
    connection = connection_config(_metadata_url(options))
    if options.baseline_model and not file_io.exists(options.baseline_model):
        raise InputError(f"--baseline-model {options.baseline_model} does not exist.")
    for notice in notices_of(options, modules):
        logging.info("%s", notice)
    name = options.name_for(modules.trainer)
    nodes = steps_of(options, modules, examples)
    _claim_root(root, name)
    if connection.HasField("sqlite"):
        file_io.makedirs(file_io.parent(connection.sqlite.filename_uri))
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


def _claim_again(dag: pipeline.Pipeline) -> None:
    """Marks a root again that was taken away in mid-run, and that the steps have made anew, for the next run."""
    root, name = dag.pipeline_info.pipeline_root, dag.pipeline_info.pipeline_name
    known = {SQLITE, f"{SQLITE}-journal", "logs", "serving", stamp.FILE, PLAIN_DATA, metadata_pointer.FILE_NAME}
    known |= {node.id for node in dag.components}
    with contextlib.suppress(OSError):  # it must not hide what went wrong before
        marker = os.path.join(root, ROOT_MARKER)
        if file_io.isdir(root) and not file_io.exists(marker) and not set(file_io.listdir(root)) - known:
            file_io.write_text(marker, json.dumps({"pipeline_name": name}) + "\n")


def _claim_root(root: str, name: str) -> None:
    """Marks a folder as this pipeline's, so that two pipelines never mix their artifacts in one.

    Raises:
      InputError: When the root is another pipeline's, holds something else, or cannot be written.
    """
    marker = os.path.join(root, ROOT_MARKER)
    try:
        if file_io.exists(marker):
            owner = json.loads(file_io.read_text(marker)).get("pipeline_name")
            if owner != name:
                raise InputError(
                    f"--pipeline-root {root} belongs to the pipeline {owner!r}; this one is {name!r}. "
                    "Choose another root, or give the same --pipeline-name."
                )
            return
        if file_io.exists(root) and set(file_io.listdir(root)) - {stamp.FILE, PLAIN_DATA}:
            raise InputError(
                f"--pipeline-root {root} is not empty and no pipeline of generic-trainer made it. Choose another root."
            )
        file_io.write_text(marker, json.dumps({"pipeline_name": name}) + "\n")
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(f"--pipeline-root {root}: cannot write there ({reason}). Choose another root.") from error
