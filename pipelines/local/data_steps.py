"""Runs the steps of a pipeline that precede training while the check is running, and the others with its findings.

    tried = compile_pipeline(dag)
    run_data_steps(runner, tried)
    ...                                 # the check ends; a pipeline with its findings is created
    run_other_steps(runner, dag, tried)

Both parts are one pipeline run in ML Metadata.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Collection, Mapping
from typing import Protocol

from tfx.dsl.compiler import compiler, constants
from tfx.orchestration import pipeline
from tfx.orchestration.portable.runtime_parameter_utils import substitute_runtime_parameter
from tfx.orchestration.portable.tfx_runner import IrBasedRunner
from tfx.proto.orchestration import pipeline_pb2

_TRAINING = ("Trainer", "Tuner")


class BackgroundCheck(Protocol):
    """A preflight check that runs in the background."""

    def stops_on_failure(self) -> contextlib.AbstractContextManager[None]:
        """Interrupts the block when the check fails, and raises the check's error instead of the block's."""

    def require_passed(self) -> Mapping[str, object]:
        """Waits for the check to end; returns its findings by the names of `PipelineOptions`, or raises its error."""


def compile_pipeline(dag: pipeline.Pipeline) -> pipeline_pb2.Pipeline:
    """Returns a pipeline in TFX's IR, with a new run id."""
    return _compiled(dag, datetime.datetime.now().strftime("%Y%m%d-%H%M%S.%f"))  # the run id, in TFX's format


def run_data_steps(runner: IrBasedRunner, ir: pipeline_pb2.Pipeline) -> None:
    """Runs the steps that do not depend on the Trainer or Tuner."""
    _run_without(runner, ir, _training_steps(ir))


def changes_data_steps(dag: pipeline.Pipeline, tried: pipeline_pb2.Pipeline) -> bool:
    """Whether a step that `run_data_steps` ran, or tried to run, differs in another pipeline."""
    steps = _steps(_compiled(dag, _run_id(tried)))
    return any(
        _without_downstream(step) != _without_downstream(steps[name])
        for name, step in _steps(tried).items()
        if name not in _training_steps(tried)
    )


def run_other_steps(runner: IrBasedRunner, dag: pipeline.Pipeline, tried: pipeline_pb2.Pipeline) -> None:
    """Runs the steps that `run_data_steps` has not run.

    If a data step differs in `dag`, all steps run again as a new pipeline run, in which unchanged ones are cache hits.

    Args:
      runner: The runner of the data steps.
      dag: The pipeline, with the findings of the check.
      tried: The pipeline of `run_data_steps`.
    """
    if changes_data_steps(dag, tried):
        runner.run(dag)
        return
    ir = _compiled(dag, _run_id(tried))
    _run_without(runner, ir, set(_steps(ir)) - _training_steps(ir))


def _run_id(ir: pipeline_pb2.Pipeline) -> str:
    return str(ir.runtime_spec.pipeline_run_id.field_value.string_value)


def _compiled(dag: pipeline.Pipeline, run_id: str) -> pipeline_pb2.Pipeline:
    ir = compiler.Compiler().compile(dag)
    substitute_runtime_parameter(ir, {constants.PIPELINE_RUN_ID_PARAMETER_NAME: run_id})
    return ir


def _run_without(runner: IrBasedRunner, ir: pipeline_pb2.Pipeline, skipped: Collection[str]) -> None:
    part = pipeline_pb2.Pipeline()
    part.CopyFrom(ir)
    for name, step in _steps(part).items():
        if name in skipped:
            step.execution_options.skip.SetInParent()
    runner.run_with_ir(part)


def _steps(ir: pipeline_pb2.Pipeline) -> dict[str, pipeline_pb2.PipelineNode]:
    """Returns the steps by id, in topological order."""
    return {node.pipeline_node.node_info.id: node.pipeline_node for node in ir.nodes}


def _training_steps(ir: pipeline_pb2.Pipeline) -> set[str]:
    """Returns the ids of the Trainer, the Tuner, and all steps downstream of them."""
    found = set(_TRAINING)
    for name, step in _steps(ir).items():
        if found.intersection(step.upstream_nodes):
            found.add(name)
    return found


def _without_downstream(step: pipeline_pb2.PipelineNode) -> pipeline_pb2.PipelineNode:
    """Returns a copy of a step without its downstream steps, which do not change what it does."""
    copied = pipeline_pb2.PipelineNode()
    copied.CopyFrom(step)
    del copied.downstream_nodes[:]
    return copied
