"""Features of raw and transformed examples: types and shapes from schemas, values from a sample."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from tensorflow_metadata.proto.v0 import schema_pb2

_DTYPES = {"INT": "int64", "FLOAT": "float32", "BYTES": "string"}
TRANSFORMED_SCHEMA = os.path.join("transformed_metadata", "schema.pbtxt")


class FeatureSummary(TypedDict):
    """Statistics of a feature over some examples, as JSON values.

    Attributes:
      kind: "BYTES", "FLOAT" or "INT", as in a schema; "mixed" if examples differ.
      least, most: Minimum and maximum number of values in an example.
      lowest, highest: Minimum and maximum of the finite numbers; None without any, and for strings.
      values: The distinct integers if there are at most 50, else [].
    """

    kind: str
    least: int
    most: int
    lowest: float | None
    highest: float | None
    values: list[int]


@dataclasses.dataclass(frozen=True)
class Feature:
    """A feature of examples.

    Attributes:
      name: Its name.
      dtype: "int64", "float32" or "string".
      shape: Shape in one example, () for a single value; None if the length varies or is unknown.
      lowest, highest: Bounds of the sample's finite numbers, else of the schema's int_domain; None if unknown.
      values: The sample's distinct integers if there are at most 50, else ().
      is_sampled: Whether bounds and values come from a sample of examples.
    """

    name: str
    dtype: str
    shape: tuple[int, ...] | None = ()
    lowest: float | None = None
    highest: float | None = None
    values: tuple[float, ...] = ()
    is_sampled: bool = False

    @property
    def width(self) -> int | None:
        """Number of values in an example; None if it varies or is unknown."""
        if self.shape is None:
            return None
        size = 1
        for one in self.shape:
            size *= one
        return size


@dataclasses.dataclass(frozen=True)
class ExampleFeatures:
    """The features of a run's examples.

    Attributes:
      raw: Features of the raw examples, by name.
      transformed: Features of the transformed examples, by name; None without Transform.
      origins: {transformed feature: raw features that it is computed from}; {} if unknown.
    """

    raw: Mapping[str, Feature]
    transformed: Mapping[str, Feature] | None = None
    origins: Mapping[str, frozenset[str]] = dataclasses.field(default_factory=dict)


def features_of_schema(
    schema: schema_pb2.Schema | None, sample: Mapping[str, FeatureSummary] | None = None
) -> dict[str, Feature]:
    """Returns the features of a schema and a sample, by name.

    Args:
      schema: The parsed Schema, or None.
      sample: Statistics of examples, by feature. Features that only the sample has are added.
    """
    from tensorflow_metadata.proto.v0 import schema_pb2

    sample = sample or {}
    found = {}
    for one in schema.feature if schema is not None else ():
        dtype = _DTYPES.get(schema_pb2.FeatureType.Name(one.type), "")
        if dtype:
            shape = tuple(size.size for size in one.shape.dim) if one.HasField("shape") else None
            low, high = _domain(one)
            found[one.name] = _with_sample(Feature(one.name, dtype, shape, low, high), sample.get(one.name))
    for name, facts in sample.items():
        if name not in found and facts["kind"] in _DTYPES:
            found[name] = _with_sample(Feature(name, _DTYPES[facts["kind"]], None), facts)
    return found


def _domain(feature: schema_pb2.Feature) -> tuple[float | None, float | None]:
    if feature.HasField("int_domain") and feature.int_domain.HasField("max"):
        return float(feature.int_domain.min), float(feature.int_domain.max)
    return None, None


def _with_sample(feature: Feature, facts: FeatureSummary | None) -> Feature:
    if not facts:
        return feature
    shape = feature.shape
    if shape is None and facts["least"] == facts["most"]:
        shape = () if facts["most"] == 1 else (facts["most"],)
    return dataclasses.replace(
        feature,
        shape=shape,
        lowest=facts["lowest"],
        highest=facts["highest"],
        values=tuple(facts["values"]),
        is_sampled=True,
    )
