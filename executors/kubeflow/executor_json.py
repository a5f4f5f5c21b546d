"""The JSON of Kubeflow Pipelines' ExecutorInput and ComponentInputsSpec, as far as it is read here.

The messages are in kubeflow/pipelines, api/v2alpha1/pipeline_spec.proto. A field that has its default is missing.
"""

from __future__ import annotations

from typing import TypedDict


class ArtifactJson(TypedDict, total=False):
    """An artifact.

    Attributes:
      name: Its resource's name.
      uri: Where it lies.
      metadata: Its properties by name.
      properties: Those of pipelines of schema 2.0, each as {"stringValue": "…"}.
      customProperties: Likewise.
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
    """The inputs, or the outputs, by key.

    Attributes:
      artifacts: By key.
      parameters: By name, in pipelines of schema 2.0; each as {"stringValue": "…"}.
      parameterValues: By name.
      outputFile: Of outputs: where the executor's output goes.
    """

    artifacts: dict[str, ArtifactList]
    parameters: dict[str, object]
    parameterValues: dict[str, object]
    outputFile: str


class ExecutorInput(TypedDict, total=False):
    """What a step is run with."""

    inputs: Part
    outputs: Part


class ParameterSpec(TypedDict, total=False):
    """The type of a parameter, such as "NUMBER_INTEGER"."""

    parameterType: str


class InputsSpec(TypedDict, total=False):
    """A component's inputs."""

    parameters: dict[str, ParameterSpec]
