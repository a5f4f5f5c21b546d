"""Generates synthetic examples from a schema, for checks without data: random within the domains, with a fixed seed.

records = generate(read_schema("schema.pbtxt"), count=64)
"""

from __future__ import annotations

import math
import random
from typing import Any

from tensorflow_metadata.proto.v0 import schema_pb2

from .tf_examples import serialized

_WORDS = ("a", "b", "c")
_MAX_EXTRA_VALUES = 3  # extra values of a feature with a variable number of values
_SEED = 1


def generate(schema: schema_pb2.Schema, count: int, missing: float = 0.1) -> list[bytes]:
    """Generates serialized tf.Examples.

    Numbers are within their domain. Integers without a domain are 0 or 1, which are valid ids for every embedding
    table; floats without one are between 0 and 1. Strings are from the domain, or "a", "b" or "c".

    Args:
      schema: Features with their types, shapes and domains.
      count: Number of examples.
      missing: Share of the examples in which a feature is missing that the schema does not require.
    """
    generator = random.Random(_SEED)  # noqa: S311 (examples, no secrets)
    domains = {domain.name: domain for domain in schema.string_domain}
    records = []
    for _ in range(count):
        features = {}
        for feature in schema.feature:
            if feature.presence.min_fraction < 1 and generator.random() < missing and not feature.HasField("shape"):
                continue
            if feature.HasField("shape"):
                size = math.prod(dimension.size for dimension in feature.shape.dim)
            else:
                least = max(1, feature.value_count.min)
                most = min(feature.value_count.max or 1, least + _MAX_EXTRA_VALUES)
                size = generator.randint(least, max(least, most))
            features[feature.name] = [_value(feature, domains, generator) for _ in range(size)]
        records.append(serialized(features))
    return records


def _value(
    feature: schema_pb2.Feature, domains: dict[str, schema_pb2.StringDomain], generator: random.Random
) -> bytes | float:
    if feature.type == schema_pb2.BYTES:
        domain = domains.get(feature.domain) or feature.string_domain
        word: str = generator.choice(list(domain.value) or _WORDS)
        return word.encode()
    if feature.type == schema_pb2.FLOAT:
        return generator.uniform(*_bounds(feature.float_domain))
    return generator.randint(*_bounds(feature.int_domain))


def _bounds(domain: schema_pb2.IntDomain | schema_pb2.FloatDomain) -> tuple[Any, Any]:
    """Returns the bounds of a domain; 0 and 1, or the one beside the other, where it has none or an infinite one."""
    low, high = (
        getattr(domain, name) if domain.HasField(name) and math.isfinite(getattr(domain, name)) else None
        for name in ("min", "max")
    )
    if low is None:
        low = 0 if high is None or high > 0 else high - 1
    return low, low + 1 if high is None else high
