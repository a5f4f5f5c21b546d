"""Compiles the steps of `steps.py` to a Kubeflow Pipelines pipeline, for a Kubernetes cluster or Vertex AI.

    pipeline = KubeflowPipeline(
        data="gs://bucket/taxi", module_file="taxi_keras.py", label="big_tip", pipeline_root="gs://bucket/pipelines",
        image="registry/trainer:1",
    )
    compile_pipeline(pipeline).write("pipeline.yaml")

The result is Kubeflow's intermediate representation (a PipelineSpec, schema 2.1), from TFX's compiler. The entry point
of its containers is `executors.kubeflow_step`. The module is uploaded as a content-addressed archive, so later edits do
not change a compiled pipeline. `data`, `train_steps`, `eval_steps` and `custom_config` are pipeline parameters.
"""

from __future__ import annotations

import dataclasses
import json
import posixpath
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from tfx.dsl.components.base.base_node import BaseNode
from tfx.orchestration import pipeline
from tfx.orchestration.data_types import RuntimeParameter
from tfx.orchestration.kubeflow.v2.kubeflow_v2_dag_runner import KubeflowV2DagRunner, KubeflowV2DagRunnerConfig

from ...components.trainer import Trainer
from ...components.transform import Transform
from ...components.tuner import Tuner
from ...executors.errors import InputError, did_you_mean
from ...executors.modules.pipeline_modules import PipelineModules, find_modules
from ...executors.number_range import CPUS, GIGABYTES, WORKERS
from ...executors.runtime.files import file_io
from ..definition.code_archive import CodeArchive, make_archive
from ..definition.examples import example_gen_for, is_split_with_test
from ..definition.options import AUTO, PipelineOptions, notices_of
from ..definition.steps import beam_args_of, steps_of
from ..submit.accelerators import GPU, node_label, vertex_type
from ..submit.manifest_file import write_manifests
from ..submit.names import IMAGE, PIPELINE
from ..submit.pods import QUEUE_LABEL, PodSettings
from ..submit.submission import is_reachable
from .executor_config import KUBEFLOW, VERTEX, executor_config
from .step_command import step_command

ALL_STEPS = "*"
_CONTAINER = "main"  # the only one of a step's pod template
# The numbers of `StepResources`.
_AMOUNTS = {"cpus": CPUS, "memory_gb": GIGABYTES, "gpus": WORKERS}
_BUCKETS = "/gcs"  # Vertex AI mounts every bucket below it in each step
_BACKOFF = {"backoffDuration": "30s", "backoffFactor": 2.0, "backoffMaxDuration": "600s"}
_PATHS = ("data", "pipeline_root", "code_root", "push_to", "schema", "baseline_model", "hyperparameters")


@dataclasses.dataclass(frozen=True)
class StepResources:
    """Resource requests and limits of a step's container.

    Attributes:
      cpus: Number of processors; 0 for the cluster's default.
      memory_gb: Memory in 10^9 bytes; 0 for the cluster's default.
      gpus: Number of GPUs.
      accelerator: Type of GPU. On Kubernetes a node label LABEL=VALUE, or a value of GKE's label
        `cloud.google.com/gke-accelerator`; on Vertex AI an accelerator type. "" for any.
    """

    cpus: float = 0.0
    memory_gb: float = 0.0
    gpus: int = 0
    accelerator: str = ""

    @classmethod
    def parse(cls, text: str) -> tuple[str, StepResources]:
        """Parses `STEP:cpus=4,memory_gb=16,gpus=1,accelerator=nvidia-tesla-t4`; returns (step, resources).

        Raises:
          InputError: When the text has another form, or an accelerator is given without `gpus`.
        """
        step, _, rest = text.partition(":")
        values: dict[str, Any] = {}
        for part in rest.split(","):
            name, _, value = part.partition("=")
            if name in values:
                raise InputError(f"--resources {text}: {name} occurs twice. Keep one of them.")
            numbers = _AMOUNTS.get(name)
            values[name] = numbers.parse(value) if numbers else value
            if values[name] is None:
                raise InputError(f"--resources {text}: {part!r} is invalid: give {numbers}.")
            if not value or (numbers is None and name != "accelerator"):
                raise InputError(
                    f"--resources {text}: {part!r} is invalid. Expected STEP:cpus=4,memory_gb=16,gpus=1,accelerator=…, "
                    "or some of these."
                )
        if values.get("accelerator") and not values.get("gpus"):
            raise InputError(f"--resources {text}: accelerator requires gpus: add gpus=1.")
        return step, cls(**values)


@dataclasses.dataclass(frozen=True)
class KubeflowPipeline(PipelineOptions):
    """Options of a pipeline for Kubeflow Pipelines or Vertex AI.

    Attributes:
      platform: "kubeflow" (default) or "vertex".
      image: The container image of all steps; must contain generic-trainer.
      code_root: Folder or URI for the archive of the module (default: `code` in the root).
      data_format: Format of `data`, if the data cannot be accessed from this machine; see `example_gen_for`.
      resources: Container resources by step; "*" for steps and values that are not set.
      retries: Maximum number of retries of a failed step (default: 0).
      pods: Settings of the pods of all steps; on "vertex" only environment variables.
      step_patches: Patches of the pods of single steps, such as `variables`, applied before that of the user.
    """

    platform: str = KUBEFLOW
    image: str = ""
    code_root: str = ""
    data_format: str = AUTO
    resources: Mapping[str, StepResources] = dataclasses.field(default_factory=dict)
    retries: int = 0
    pods: PodSettings = dataclasses.field(default_factory=PodSettings)
    step_patches: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)

    def pods_of(self, step: str) -> PodSettings:
        """Returns the pod settings of a step."""
        own = [self.step_patches[step]] if step in self.step_patches else []
        return dataclasses.replace(self.pods, patches=(*self.pods.patches, *own))

    def resources_of(self, step: str) -> StepResources:
        """Returns the resources of a step; values that are not set are those of "*"."""
        default, own = (self.resources.get(name, StepResources()) for name in (ALL_STEPS, step))
        given = {name: value for name, value in dataclasses.asdict(own).items() if value}
        return dataclasses.replace(default, **given)


@dataclasses.dataclass(frozen=True)
class CompiledPipeline:
    """A compiled pipeline, not yet written.

    Attributes:
      spec: Kubeflow's PipelineSpec, as JSON values.
      platform_spec: Kubernetes-specific PlatformSpec with the pods' settings; {} if there are none.
      archives: Archives of the modules to upload; modules that are in the image have none.
      code_root: Folder or URI to upload the archives to.
      notes: Notes to show to the user.
    """

    spec: dict[str, object]
    platform_spec: dict[str, object]
    archives: tuple[CodeArchive, ...]
    code_root: str
    notes: tuple[str, ...]

    def write(self, path: str) -> None:
        """Uploads the archives, then writes the pipeline as YAML, or as JSON if the path ends in `.json`.

        Raises:
          InputError: When a file cannot be written, or a pipeline with a `platform_spec` is to be written as JSON.
        """
        documents = [document for document in (self.spec, self.platform_spec) if document]
        if path.endswith(".json") and len(documents) > 1:
            raise InputError(f"--output {path}: with settings of pods it is two documents. Use YAML.")
        for archive in self.archives:
            archive.upload(self.code_root)
        write_manifests(path, documents, _header(self.spec), sort_keys=True)


def compile_pipeline(options: KubeflowPipeline) -> CompiledPipeline:
    """Compiles a pipeline without writing or uploading anything.

    Raises:
      InputError: When a path is on this machine only, or the platform does not support an option.
      ModuleError: When there is no such module.
    """
    options = dataclasses.replace(options, code_root=options.code_root or posixpath.join(options.pipeline_root, "code"))
    _require_usable(options)
    with tempfile.TemporaryDirectory(prefix="generic-trainer-") as scratch:
        modules = find_modules(options.module_file, scratch, options.transform_module, options.tuner_module)
        return _compile(options, modules)


def _compile(options: KubeflowPipeline, modules: PipelineModules) -> CompiledPipeline:
    name = PIPELINE.require(options.name, "--pipeline-name") or PIPELINE.derived(options.name_for(modules.trainer))
    archives = _archives_of(modules, _folders(options))
    can_resolve_models = options.platform == VERTEX
    example_gen = example_gen_for(options.data, options.data_format, test_split=options.test_split)
    can_read_files = options.data_format == AUTO
    nodes = steps_of(
        options,
        modules,
        example_gen,
        can_resolve_models=can_resolve_models,
        can_read_files=can_read_files,
        has_test_split=options.test_split or (can_read_files and is_split_with_test(options.data)),
    )
    references = {name: archive.reference(options.code_root) for name, archive in archives.items()}
    parameters = _insert_parameters(nodes, options, references)
    config = KubeflowV2DagRunnerConfig(
        default_image=options.image, default_commands=step_command("kubeflow_step"), use_pipeline_spec_2_1=True
    )
    dag = pipeline.Pipeline(
        pipeline_name=name,
        pipeline_root=options.pipeline_root,
        components=nodes,
        enable_cache=options.cache,
        beam_pipeline_args=beam_args_of(options),
    )
    spec = KubeflowV2DagRunner(config).run(dag, write_out=False)["pipelineSpec"]
    spec["defaultPipelineRoot"] = options.pipeline_root
    inputs = spec["root"]["inputDefinitions"]["parameters"]
    for parameter in parameters:
        inputs[parameter.name] |= {"defaultValue": parameter.default, "isOptional": True}
    platform_spec = _apply_resources(spec, options)
    _apply_retries(spec, options.retries)
    if options.platform == KUBEFLOW:
        _disable_example_gen_cache(spec, example_gen.id)
    notes = [*notices_of(options, modules), *_notes(options)]
    return CompiledPipeline(spec, platform_spec, tuple(archives.values()), options.code_root, tuple(notes))


def _archives_of(modules: PipelineModules, folders: Sequence[str]) -> dict[str, CodeArchive]:
    """Returns {module reference: archive} for the modules that are on this machine only."""
    archives = {
        source.reference: make_archive(source, lambda place: is_reachable(place, folders)) for source in modules.sources
    }
    return {reference: archive for reference, archive in archives.items() if archive is not None}


def _folders(options: KubeflowPipeline) -> list[str]:
    """Returns the folders that are mounted in all containers."""
    return [_BUCKETS] if options.platform == VERTEX else options.pods.folders


def _require_usable(options: KubeflowPipeline) -> None:
    if not options.image:
        raise InputError(
            "--image is missing: set the container image of the steps, which must contain generic-trainer."
        )
    IMAGE.require(options.image, "--image")
    if options.platform == VERTEX and options.pods.folders:
        raise InputError("--volume: Vertex AI does not mount volume claims; it mounts every bucket at /gcs/BUCKET.")
    flags = {name: f"--{name.replace('_', '-')} {value}" for name in _PATHS if (value := getattr(options, name))}
    unreachable = [text for name, text in flags.items() if not is_reachable(getattr(options, name), _folders(options))]
    if unreachable:
        remedy = (
            "a gs:// URI" if options.platform == VERTEX else "a URI, or a folder on a claim (--volume CLAIM:/FOLDER)"
        )
        raise InputError(f"{', '.join(unreachable)}: on this machine only, but the steps run on others. Use {remedy}.")
    scheme = options.pipeline_root.partition("://")[0]
    if scheme == "minio":
        raise InputError(
            f"--pipeline-root {options.pipeline_root}: TFX's steps read artifacts by URI, and TensorFlow has no file "
            "system for minio://. Use gs://, or a folder on a claim (--volume CLAIM:/FOLDER). The component "
            "`trainer_op` does not need TFX and supports minio://."
        )
    if options.platform == VERTEX and scheme != "gs":
        raise InputError(f"--pipeline-root {options.pipeline_root}: Vertex AI requires a bucket: gs://….")
    if options.warm_start and not options.baseline_model and options.platform == KUBEFLOW:
        raise InputError(
            "--warm-start: Kubeflow Pipelines cannot look up the last blessed model (Vertex AI can). Set "
            "--baseline-model URI."
        )


def _notes(options: KubeflowPipeline) -> list[str]:
    notes = []
    if options.platform == KUBEFLOW:
        if options.label and not options.baseline_model:
            notes.append(
                "The model is not compared with an earlier one: Kubeflow Pipelines cannot look up the last blessed "
                "model. Set one with --baseline-model URI."
            )
        if options.cache:
            notes.append(
                "ExampleGen is never taken from the cache, because changed files in its folder would not be detected."
            )
        if not file_io.is_remote(options.pipeline_root):
            notes.append(
                f"--pipeline-root {options.pipeline_root}: Kubeflow's launcher requires a bucket; a folder works only "
                "if the steps are run by other means."
            )
    if options.pipeline_root.startswith("s3://"):
        notes.append(
            "TFX's steps cannot read s3://, for which TensorFlow has no file system. Mount the bucket as a volume, and "
            "use its folder (--volume CLAIM:/FOLDER)."
        )
    return notes


def _insert_parameters(
    nodes: Sequence[BaseNode], options: KubeflowPipeline, references: Mapping[str, str]
) -> list[RuntimeParameter]:
    """Replaces execution properties by pipeline parameters, and module references by those of the archives.

    Returns:
      The pipeline parameters.
    """
    data, train_steps, eval_steps, custom_config = parameters = [
        RuntimeParameter("data", str, nodes[0].exec_properties["input_base"]),
        RuntimeParameter("train_steps", int, options.train_steps),
        RuntimeParameter("eval_steps", int, options.eval_steps),
        # Kubeflow passes parameters in the arguments of a container, in which Kubernetes expands `$(NAME)` and `$$`.
        RuntimeParameter("custom_config", str, json.dumps(options.custom_config).replace("$", r"\u0024")),
    ]
    given = {"custom_config": custom_config}
    changes: dict[type[BaseNode], dict[str, RuntimeParameter | int]] = {
        Transform: given,
        Tuner: {**given, "train_steps": options.tune_steps or train_steps, "eval_steps": eval_steps},
        Trainer: {**given, "train_steps": train_steps, "eval_steps": eval_steps},
    }
    for node in nodes:
        properties = node.exec_properties
        properties.update({"input_base": data} if node is nodes[0] else changes.get(type(node), {}))
        for name in ("module_file", "preprocessing_fn") if type(node) in changes else ():
            if (reference := references.get(properties.get(name) or "")) is not None:
                properties[name] = reference
    return parameters


def _apply_resources(spec: dict[str, Any], options: KubeflowPipeline) -> dict[str, object]:
    """Sets resources and environment of the steps' containers; returns the PlatformSpec with the pods' settings."""
    executors = spec["deploymentSpec"]["executors"]
    containers = {task: executors[_executor(spec, task)] for task in spec["root"]["dag"]["tasks"]}
    containers = {task: executor["container"] for task, executor in containers.items() if "container" in executor}
    for flag, steps in (
        ("--resources", options.resources.keys() - {ALL_STEPS}),
        ("--env or --env-secret", options.step_patches.keys()),
    ):
        for step in sorted(steps - containers.keys()):
            known = ", ".join(containers)
            raise InputError(f"{flag} {step}: the steps are {known}.{did_you_mean(step, containers)}")
    platform: dict[str, dict[str, object]] = {}
    for task, container in containers.items():
        if resources := _resources(options.resources_of(task), options.platform):
            container["resources"] = resources
        template = _template(options, task)
        variables = [item for item in template["spec"]["containers"][0].get("env", []) if "valueFrom" not in item]
        if variables:
            container["env"] = [*container.get("env", []), *variables]
        if settings := executor_config(template, options.platform):
            platform[_executor(spec, task)] = settings
    return {"platforms": {"kubernetes": {"deploymentSpec": {"executors": platform}}}} if platform else {}


def _template(options: KubeflowPipeline, task: str) -> dict[str, Any]:
    """Returns the template of a step's pod."""
    pods, accelerator = options.pods_of(task), options.resources_of(task).accelerator
    template: dict[str, Any] = {"spec": {"containers": [{"name": _CONTAINER}]}}
    if pods.queue:
        template["metadata"] = {"labels": {QUEUE_LABEL: pods.queue}}
    if accelerator and options.platform == KUBEFLOW:
        template["spec"]["nodeSelector"] = node_label(accelerator, "--resources: accelerator")
    return pods.apply(template, _CONTAINER)


def _executor(spec: Mapping[str, Any], task: str) -> str:
    component = spec["root"]["dag"]["tasks"][task]["componentRef"]["name"]
    label: str = spec["components"][component]["executorLabel"]
    return label


def _resources(requested: StepResources, platform: str) -> dict[str, object]:
    """Returns a container's resources, both in the current fields and in those for older servers."""
    resources: dict[str, object] = {}
    for name, number, text in (
        ("cpu", requested.cpus, f"{requested.cpus:g}"),
        ("memory", requested.memory_gb, f"{requested.memory_gb * 1000:.0f}M"),
    ):
        if number:
            for bound in ("Request", "Limit"):
                resources |= {f"{name}{bound}": number, f"resource{name.title()}{bound}": text}
    if requested.gpus:
        kind = vertex_type(requested.accelerator, "--resources accelerator") if platform == VERTEX else GPU
        count = str(requested.gpus)
        resources["accelerator"] = {"type": kind, "count": count, "resourceType": kind, "resourceCount": count}
    return resources


def _apply_retries(spec: dict[str, Any], retries: int) -> None:
    for task in spec["root"]["dag"]["tasks"].values() if retries else ():
        task["retryPolicy"] = {"maxRetryCount": retries, **_BACKOFF}


def _disable_example_gen_cache(spec: dict[str, Any], example_gen: str) -> None:
    """Disables caching of ExampleGen: its driver, which detects changed files, runs on Vertex AI only."""
    spec["deploymentSpec"]["executors"][_executor(spec, example_gen)]["container"].pop("lifecycle", None)
    spec["root"]["dag"]["tasks"][example_gen].pop("cachingOptions", None)


def _header(spec: Mapping[str, Any]) -> str:
    lines = ["PIPELINE DEFINITION", f"Name: {spec['pipelineInfo']['name']}", "Inputs:"]
    for name, parameter in sorted(spec["root"]["inputDefinitions"]["parameters"].items()):
        lines.append(f"   {name}: {parameter['parameterType']} [Default: {parameter['defaultValue']!r}]")
    return "\n".join(lines)
