"""`generic-trainer compile --to kubeflow|vertex`: compiles the pipeline of `run` for a cluster."""

from __future__ import annotations

import os

import click

from ..executors.runtime.logs.setup import keep_logs
from ..pipelines.definition.options import DATA_FORMATS
from .pipeline_flags import pipeline_flags, pipeline_options


@click.command()
@click.option("--to", "platform", type=click.Choice(["kubeflow", "vertex"]), required=True, help="Where it will run.")
@click.option("--image", required=True, help="Container image of the steps, with generic-trainer in it.")
@click.option("--output", default="pipeline.yaml", show_default=True, metavar="FILE", help="YAML, or JSON by its name.")
@click.option(
    "--code-root", default="", metavar="URI", help="Where the module's archive is put (default: code/ there)."
)
@click.option(
    "--data-format",
    type=click.Choice(DATA_FORMATS),
    default="auto",
    show_default=True,
    help="What lies in --data, where that cannot be looked up from here.",
)
@click.option(
    "--resources",
    multiple=True,
    metavar="STEP:NAME=VALUE,…",
    help="What a step gets: cpus, memory_gb, gpus, accelerator; may be repeated.",
)
@click.option("--retries", type=click.IntRange(0), default=0, help="How often a step that failed is tried again.")
@click.option("--volume", "volumes", multiple=True, metavar="CLAIM:/FOLDER", help="kubeflow: a claim to mount.")
@pipeline_flags
def compile(output: str, resources: tuple[str, ...], volumes: tuple[str, ...], **flags: object) -> None:
    """Compiles the pipeline of `run` for Kubeflow Pipelines or Vertex AI.

    The data, the numbers of steps and custom_config become parameters of the pipeline. Each module is put, as an
    archive named by its content, where the steps read it.

    \b
    Example:
      generic-trainer compile --to kubeflow --image IMAGE --data gs://bucket/taxi --module-file taxi_keras.py \\
          --label big_tip --pipeline-root gs://bucket/pipelines --resources Trainer:cpus=4,memory_gb=16
    """  # noqa: D301 (click's mark of lines to keep)
    options = pipeline_options(flags)
    keep_logs(os.devnull, native=True)
    from ..pipelines.kubeflow import KubeflowPipeline, StepResources, compile_pipeline  # imports TensorFlow and TFX
    from ..pipelines.submit.kuberay import Volume

    compiled = compile_pipeline(
        KubeflowPipeline(
            resources=dict(StepResources.parse(text) for text in resources),
            volumes=tuple(Volume.parse(text) for text in volumes),
            **options,
        )
    )
    for note in compiled.notes:
        click.echo(f"Note: {note}", err=True)
    compiled.write(output)
    for archive in compiled.archives:
        click.echo(f"Code: {archive.path(compiled.code_root)}", err=True)
    click.echo(f"Wrote {output}", err=True)
