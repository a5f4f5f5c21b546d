"""The trainer as a component of plain Kubeflow Pipelines, without TFX in the pipeline.

    from kfp import dsl
    from generic_trainer.pipelines.kubeflow import trainer_op

    @dsl.pipeline(name="iris")
    def iris(examples_uri: str):
        examples = dsl.importer(artifact_uri=examples_uri, artifact_class=dsl.Dataset)
        train = trainer_op(examples=examples.output, module="gs://bucket/code/iris_keras.py", train_steps=300)
        train.set_memory_limit("8G").set_retry(3)
        deploy(model=train.outputs["model"])

`trainer_op` runs in the image `generic-trainer:VERSION`; `trainer_component("registry/image:tag")`, or
`train.set_container_image(...)`, names another one, which needs `generic-trainer` of the same release. The same
component is the file `trainer.component.yaml` beside this one, for `kfp.components.load_component_from_file`. It is
written by

    python -m generic_trainer.pipelines.kubeflow.component

Where the model lies. The SavedModel's `saved_model.pb` is right at the output `model`'s URI, and not, as in a TFX
pipeline, in its folder `Format-Serving`: whoever takes a `system.Model` by its URI expects that, such as Vertex AI's
`ModelUploadOp`, `tf.saved_model.load(model.path)` and this component's own `base_model`.
TensorFlow Serving, and KServe by it, want a folder named by a number between: `serving_version=1` puts one there.
Either way the artifact's metadata says where: `saved_model` is the URI of the folder with `saved_model.pb`. Beside it
stand `framework`, `signatures`, `checks`, `dialect`, `module_fingerprint`, `size_bytes` and each metric, as `eval/auc`.

Data. Kubeflow's launcher copies artifacts to the pod's disk before the step begins; what is large is better read where
it lies, by `train_files=["gs://bucket/train/*"]`. TensorFlow has a file system for gs://, and none for s3:// or minio://.

Caching. Kubeflow takes a step from its cache when its inputs are the same. The text of `module_text` is an input; of
`module` it is the name alone, so a file that was edited in place is not noticed. Give what is edited another name
(`name@archive.zip` with the content's hash in it), or call `train.set_caching_options(False)`.

Retries. A pod's own disk goes with it. Where outputs are written to a mounted bucket, as on Vertex AI, checkpoints lie
beside them, and the next try and the next run of the same code, data and arguments go on from them. Elsewhere give
`checkpoint_root`: a folder on a volume (`kfp.kubernetes.mount_pvc`), `dsl.WORKSPACE_PATH_PLACEHOLDER`, or a gs:// URI.
"""

from __future__ import annotations

import dataclasses
import inspect
import pathlib
from collections.abc import Iterator
from typing import Any, Optional

from kfp import compiler, dsl

from ...executors.kubeflow.parameters import NOT_OFFERED, StepParameters, json_kinds
from ...executors.options import TrainingOptions
from ...version import __version__
from .step_command import step_command

DEFAULT_IMAGE = f"generic-trainer:{__version__}"
COMPONENT_FILE = pathlib.Path(__file__).with_name("trainer.component.yaml")

_INPUTS: dict[str, tuple[type[dsl.Artifact], str]] = {
    "examples": (
        dsl.Dataset,
        "Training and evaluation examples: a folder with Split-train/ and Split-eval/, with train/ and eval/, or with "
        "files; without splits all is for training. TFX's metadata (payload_format) is read, but not needed.",
    ),
    "eval_examples": (dsl.Dataset, "Evaluation examples, if they are not in 'examples'."),
    "schema": (dsl.Artifact, "The examples' Schema in protobuf's text format: a file, or a folder with one."),
    "transform_graph": (dsl.Artifact, "Output of TensorFlow Transform: a folder."),
    "base_model": (dsl.Artifact, "A model to start from: a SavedModel, in a layout of this component's or of TFX's."),
    "hyperparameters": (dsl.Artifact, "KerasTuner's configuration as JSON: a file, or a folder with one."),
}
_OUTPUTS: dict[str, tuple[type[dsl.Artifact], str]] = {
    "model": (
        dsl.Model,
        "The SavedModel, which was loaded again and has answered; saved_model.pb is right at the uri.",
    ),
    "metrics": (dsl.Metrics, "The run's scalar metrics, such as eval/auc; the same as JSON in a file."),
    "report": (dsl.HTML, "A page about the run: metrics, checks, signatures, arguments, versions."),
    "tensorboard": (dsl.Artifact, "The model run: TensorBoard's logs and run.json, the record of the run."),
}
_KIND = inspect.Parameter.KEYWORD_ONLY
_SUMMARY = "Trains a TensorFlow training module of any dialect, and checks the SavedModel before it is published."


def trainer_component(image: str = DEFAULT_IMAGE) -> Any:
    """Returns the component, to be called in a function with `@kfp.dsl.pipeline`.

    Its inputs are artifacts, the fields of `StepParameters` and, but for `isolate`, those of `TrainingOptions`. All are
    optional, but there has to be a module and examples. Kubeflow checks their types when the pipeline is compiled.

    Args:
      image: A container image with `generic-trainer` of this release.
    """

    def trainer(*placeholders: object) -> dsl.ContainerSpec:
        del placeholders  # the step reads them all from ExecutorInput
        arguments = ["--executor_input", dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER]
        return dsl.ContainerSpec(image=image, command=step_command("kubeflow_component_step"), args=arguments)

    # Kubeflow reads inputs, types and descriptions off a function's signature and docstring.
    inputs, outputs = list(_described_inputs()), list(_described_outputs())
    parameters = [parameter for parameter, _ in (*inputs, *outputs)]
    trainer.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    lines = ("\n".join(f"  {parameter.name}: {text}" for parameter, text in part) for part in (inputs, outputs))
    trainer.__doc__ = "{}\n\nArgs:\n{}\n\nReturns:\n{}\n".format(_SUMMARY, *lines)
    return dsl.container_component(trainer)


def _described_inputs() -> Iterator[tuple[inspect.Parameter, str]]:
    """Yields each input with its description."""
    for name, (artifact, text) in _INPUTS.items():
        yield inspect.Parameter(name, _KIND, default=None, annotation=Optional[dsl.Input[artifact]]), text  # noqa: UP045
    for fields in (StepParameters, TrainingOptions):
        kinds = json_kinds(fields)
        for field in dataclasses.fields(fields):
            if field.name in NOT_OFFERED:
                continue
            default = list(field.default) if isinstance(field.default, tuple) else field.default
            plain = kinds[field.name]
            annotation = Optional[plain] if default is None else plain  # noqa: UP045
            choices = field.metadata.get("choices")
            text = field.metadata["help"] + (f" One of: {', '.join(choices)}." if choices else "")
            yield inspect.Parameter(field.name, _KIND, default=default, annotation=annotation), text


def _described_outputs() -> Iterator[tuple[inspect.Parameter, str]]:
    for name, (artifact, text) in _OUTPUTS.items():
        yield inspect.Parameter(name, _KIND, annotation=dsl.Output[artifact]), text


trainer_op = trainer_component()


def write_component(path: str | pathlib.Path = COMPONENT_FILE) -> None:
    """Writes the component as a file for `kfp.components.load_component_from_file`: Kubeflow's IR, as YAML."""
    compiler.Compiler().compile(trainer_component(), str(path))


if __name__ == "__main__":
    write_component()
