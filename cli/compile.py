"""`generic-trainer compile --to kubeflow|vertex`: compiles the pipeline of `run` for a cluster."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import click

from ..executors.number_range import RETRIES
from ..executors.runtime.files.output_file import STDOUT
from ..executors.runtime.logs.setup import keep_logs
from ..pipelines.definition.options import DATA_FORMATS
from ..pipelines.submit.names import require_unique
from ..pipelines.submit.pods import variables
from .number_type import NumberType
from .path_type import FILE
from .pipeline_flags import pipeline_flags, pipeline_options
from .pod_flags import pod_flags, pop_pod_settings


@click.command()
@click.option("--to", "platform", type=click.Choice(["kubeflow", "vertex"]), required=True, help="Target platform.")
@click.option("--image", required=True, help="Container image of the steps; contains generic-trainer.")
@click.option(
    "--output",
    default="pipeline.yaml",
    show_default=True,
    type=FILE,
    help="Output file; JSON for *.json, else YAML; - prints it.",
)
@click.option(
    "--code-root", default="", metavar="URI", help="Where module archives are uploaded (default: code/ in the root)."
)
@click.option(
    "--data-format",
    type=click.Choice(DATA_FORMATS),
    default="auto",
    show_default=True,
    help="Format of --data; required if this machine cannot read it.",
)
@click.option(
    "--resources",
    multiple=True,
    metavar="STEP:NAME=VALUE,…",
    help="Resources of a step, or of all with *: cpus, memory_gb (10^9 bytes), gpus, accelerator; may be repeated.",
)
@click.option("--retries", type=NumberType(RETRIES), default=0, help="Retries of a failed step (default: 0).")
@click.option(
    "--not-secret", multiple=True, metavar="NAME", help="Name that resembles a secret's but is none; may be repeated."
)
@pod_flags
@pipeline_flags
def compile(output: str, resources: tuple[str, ...], not_secret: tuple[str, ...], **flags: Any) -> None:
    """Compiles the pipeline of `run` for Kubeflow or Vertex AI.

    The data, step counts and custom_config become parameters of the pipeline. Each module is uploaded to --code-root as
    an archive that is named after its content. STEP: before a value of --env or --env-secret sets it for one step.

    \b
    Example:
      generic-trainer compile --to kubeflow --image IMAGE --data gs://bucket/taxi --module-file taxi_keras.py \\
          --label big_tip --pipeline-root gs://bucket/pipelines --resources Trainer:cpus=4,memory_gb=16
    """  # noqa: D301 (click's mark of lines to keep)
    step_env, flags["env"] = _split_steps(flags["env"])
    step_secrets, flags["env_secrets"] = _split_steps(flags["env_secrets"])
    pods = pop_pod_settings(flags, not_secret)
    step_patches = {
        step: variables(step_env.get(step, ()), step_secrets.get(step, ()), not_secret)
        for step in (*step_env, *step_secrets)
    }
    options = pipeline_options(flags)
    keep_logs(os.devnull, native=True)
    from ..pipelines.kubeflow import KubeflowPipeline, StepResources, compile_pipeline  # imports TensorFlow and TFX

    by_step = [StepResources.parse(text) for text in resources]
    require_unique([step for step, _ in by_step], "--resources")
    compiled = compile_pipeline(
        KubeflowPipeline(
            resources=dict(by_step),
            pods=pods,
            step_patches=step_patches,
            **options,
        )
    )
    for note in compiled.notes:
        click.echo(f"Note: {note}", err=True)
    compiled.write(output)
    for archive in compiled.archives:
        click.echo(f"Code: {archive.path(compiled.code_root)}", err=True)
    if output != STDOUT:
        click.echo(f"Wrote {output}", err=True)


def _split_steps(texts: Sequence[str]) -> tuple[dict[str, list[str]], tuple[str, ...]]:
    """Splits texts into those of single steps, written STEP:NAME=…, by step, and those of all steps."""
    by_step: dict[str, list[str]] = {}
    rest = []
    for text in texts:
        step, is_for_step, value = text.partition(":")
        if is_for_step and "=" not in step:
            by_step.setdefault(step, []).append(value)
        else:
            rest.append(text)
    return by_step, tuple(rest)
