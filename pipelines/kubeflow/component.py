"""The trainer as a Kubeflow Pipelines component, for pipelines without TFX.

    from kfp import dsl
    from generic_trainer.pipelines.kubeflow import trainer_op

    @dsl.pipeline(name="iris")
    def iris(examples_uri: str):
        examples = dsl.importer(artifact_uri=examples_uri, artifact_class=dsl.Dataset)
        train = trainer_op(examples=examples.output, module="gs://bucket/code/iris_keras.py", train_steps=300)
        train.set_memory_limit("8G").set_retry(3)
        deploy(model=train.outputs["model"])

`trainer_op` runs in the image `generic-trainer:VERSION`. `trainer_component("registry/image:tag")` or
`train.set_container_image(...)` sets another image, which must contain the same release of `generic-trainer`. The file
`trainer.component.yaml` beside this one contains the same component for `kfp.components.load_component_from_file`.
Write it with

    python -m generic_trainer.pipelines.kubeflow.component

Model layout. `saved_model.pb` is directly at the URI of the output `model`, not in its folder `Format-Serving` as in a
TFX pipeline. Consumers of a `system.Model` expect that, such as Vertex AI's `ModelUploadOp`,
`tf.saved_model.load(model.path)` and this component's `base_model`. TensorFlow Serving and KServe need a numbered
version folder in between: `serving_version=1` adds it. In both cases `saved_model` in the artifact's metadata is the
URI of the folder with `saved_model.pb`. The metadata also contain `framework`, `signatures`, `checks`, `dialect`,
`module_fingerprint`, `size_bytes` and each metric, such as `eval/auc`.

Data. Kubeflow's launcher copies artifacts to the pod's disk before the step starts. For large data, read the files
directly instead: `train_files=["gs://bucket/train/*"]`. TensorFlow has no file system for minio://,
and files on s3:// are copied to the pod's disk.

Caching. Kubeflow has a cache hit if a step's inputs are unchanged. The content of `module_text` is an input, but of
`module` only the name, so editing that file in place does not invalidate the cache. Change the name with the content
(`name@archive.zip` with a hash of the content in its name), or call `train.set_caching_options(False)`.

Retries. A pod's local disk is deleted with the pod. If outputs are written to a mounted bucket, as on Vertex AI,
checkpoints are written beside them, and the next attempt or run with the same code, data and arguments resumes from
them. Elsewhere set `checkpoint_root`: a folder on a volume (`kfp.kubernetes.mount_pvc`),
`dsl.WORKSPACE_PATH_PLACEHOLDER`, or a gs:// URI.
"""

from __future__ import annotations

import dataclasses
import inspect
import pathlib
from collections.abc import Iterator
from typing import Any, Optional

from kfp import compiler, dsl

from ...executors.kubeflow.parameters import StepParameters, json_kinds
from ...executors.options import TrainingOptions, declared_options
from ...version import __version__
from .step_command import step_command

DEFAULT_IMAGE = f"generic-trainer:{__version__}"
COMPONENT_FILE = pathlib.Path(__file__).with_name("trainer.component.yaml")

_INPUTS: dict[str, tuple[type[dsl.Artifact], str]] = {
    "examples": (
        dsl.Dataset,
        "Training and evaluation examples: a folder with Split-train/ and Split-eval/, with train/ and eval/, or with "
        "files; without splits, all of it is training data. TFX's metadata (payload_format) is used if present.",
    ),
    "eval_examples": (dsl.Dataset, "Evaluation examples, if they are not in 'examples'."),
    "schema": (dsl.Artifact, "The examples' Schema in protobuf's text format: a file, or a folder with one."),
    "transform_graph": (dsl.Artifact, "Output of TensorFlow Transform: a folder."),
    "base_model": (
        dsl.Artifact,
        "A model to start training from: a SavedModel in a layout of this component or of TFX.",
    ),
    "hyperparameters": (dsl.Artifact, "KerasTuner's configuration as JSON: a file, or a folder with one."),
}
_OUTPUTS: dict[str, tuple[type[dsl.Artifact], str]] = {
    "model": (
        dsl.Model,
        "The SavedModel, checked by loading it and running inference; saved_model.pb is directly at the URI.",
    ),
    "metrics": (dsl.Metrics, "The run's scalar metrics, such as eval/auc, as metadata and as a JSON file."),
    "classification": (
        dsl.ClassificationMetrics,
        "ROC curve and confusion matrix of the model's first output on the eval split, or on a sample of it; empty for "
        "other tasks than classification, and if the labels are unknown.",
    ),
    "report": (
        dsl.HTML,
        "HTML report of the run: predictions and labels, metrics, checks, signatures, arguments, versions.",
    ),
    "tensorboard": (dsl.Artifact, "The model run: TensorBoard logs and the run record, run.json."),
}
_KIND = inspect.Parameter.KEYWORD_ONLY
_SUMMARY = "Trains a TensorFlow training module of any dialect, and checks the SavedModel before it is published."


def trainer_component(image: str = DEFAULT_IMAGE) -> Any:
    """Returns the component, to be called in a function decorated with `@kfp.dsl.pipeline`.

    Its inputs are artifacts, the fields of `StepParameters`, and those of `TrainingOptions` except `isolate`. All are
    optional, but a module and examples are required. Kubeflow checks the types when the pipeline is compiled.

    Args:
      image: A container image with this release of `generic-trainer` (default: `generic-trainer:VERSION`).
    """

    def trainer(*placeholders: object) -> dsl.ContainerSpec:
        del placeholders  # the step reads them all from ExecutorInput
        arguments = ["--executor_input", dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER]
        return dsl.ContainerSpec(image=image, command=step_command("kubeflow_component_step"), args=arguments)

    # Kubeflow takes inputs, types and descriptions from a function's signature and docstring.
    inputs, outputs = list(_described_inputs()), list(_described_outputs())
    parameters = [parameter for parameter, _ in (*inputs, *outputs)]
    trainer.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    lines = ("\n".join(f"  {parameter.name}: {text}" for parameter, text in part) for part in (inputs, outputs))
    trainer.__doc__ = "{}\n\nArgs:\n{}\n\nReturns:\n{}\n".format(_SUMMARY, *lines)
    return dsl.container_component(trainer)


def _described_inputs() -> Iterator[tuple[inspect.Parameter, str]]:
    for name, (artifact, text) in _INPUTS.items():
        yield inspect.Parameter(name, _KIND, default=None, annotation=Optional[dsl.Input[artifact]]), text  # noqa: UP045
    described = [(field.name, field.default, field.metadata["help"]) for field in dataclasses.fields(StepParameters)]
    for option in declared_options():
        if option.kubeflow:
            choices = f" One of: {', '.join(option.choices)}." if option.choices else ""
            described.append((option.name, option.default, option.help + choices))
    kinds = json_kinds(StepParameters) | json_kinds(TrainingOptions)
    for name, default, text in described:
        annotation = Optional[kinds[name]] if default is None else kinds[name]  # noqa: UP045
        plain = list(default) if isinstance(default, tuple) else default
        yield inspect.Parameter(name, _KIND, default=plain, annotation=annotation), text


def _described_outputs() -> Iterator[tuple[inspect.Parameter, str]]:
    for name, (artifact, text) in _OUTPUTS.items():
        yield inspect.Parameter(name, _KIND, annotation=dsl.Output[artifact]), text


trainer_op = trainer_component()


def write_component(path: str | pathlib.Path = COMPONENT_FILE) -> None:
    """Writes the component as YAML in Kubeflow's IR, for `kfp.components.load_component_from_file`."""
    compiler.Compiler().compile(trainer_component(), str(path))


if __name__ == "__main__":
    write_component()
