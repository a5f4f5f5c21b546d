"""The JSON of Kubeflow Pipelines' ExecutorInput and ComponentInputsSpec, limited to the fields that are used here.

The messages are defined in kubeflow/pipelines, api/v2alpha1/pipeline_spec.proto. Fields with default values are absent.
"""

from __future__ import annotations

from typing import TypedDict


class ArtifactJson(TypedDict, total=False):
    """An artifact.

    Attributes:
      name: Resource name of the artifact.
      uri: URI of its content.
      metadata: Properties by name.
      properties: Properties in pipelines of schema 2.0, each as {"stringValue": "…"}.
      customProperties: Custom properties in pipelines of schema 2.0, in the same form.
    """

    name: str
    uri: str
    metadata: dict[str, object]
    properties: dict[str, object]
    customProperties: dict[str, object]


class ArtifactList(TypedDict, total=False):
    """The artifacts of one input or output."""

    artifacts: list[ArtifactJson]


class Part(TypedDict, total=False):
    """The inputs or the outputs of a step.

    Attributes:
      artifacts: Artifacts by key.
      parameters: Parameters by name in pipelines of schema 2.0, each as {"stringValue": "…"}.
      parameterValues: Parameters by name.
      outputFile: Path of the executor output file; only in outputs.
    """

    artifacts: dict[str, ArtifactList]
    parameters: dict[str, object]
    parameterValues: dict[str, object]
    outputFile: str


class ExecutorInput(TypedDict, total=False):
    """The invocation of a step: its inputs and outputs."""

    inputs: Part
    outputs: Part


class ParameterSpec(TypedDict, total=False):
    """The type of a parameter, such as "NUMBER_INTEGER"."""

    parameterType: str


class InputsSpec(TypedDict, total=False):
    """The input specification of a component."""

    parameters: dict[str, ParameterSpec]
