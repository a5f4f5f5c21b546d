"""What examples hold, feature by feature, and how that goes with a schema and with the label."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from ..errors import did_you_mean

_KINDS = {"bytes_list": "BYTES", "float_list": "FLOAT", "int64_list": "INT"}
_SHOWN = 8  # features, in one line


@dataclasses.dataclass
class FeatureFacts:
    """What some examples hold of a feature.

    Attributes:
      kind: "BYTES", "FLOAT" or "INT", as in a schema; "mixed" when examples differ.
      examples: How many have it.
      least, most: How many values they have of it.
      lowest, highest: Of numbers, the bounds; None for words.
      values: Some of the words, or of the integers.
    """

    kind: str
    examples: int = 0
    least: int = 1 << 62
    most: int = 0
    lowest: float | None = None
    highest: float | None = None
    values: set[Any] = dataclasses.field(default_factory=set)


def facts_of(records: Iterable[bytes]) -> dict[str, FeatureFacts]:
    """Looks through serialized tf.Examples.

    Raises:
      google.protobuf.message.DecodeError: When one of them is something else.
    """
    import tensorflow as tf

    facts: dict[str, FeatureFacts] = {}
    for record in records:
        for name, feature in tf.train.Example.FromString(record).features.feature.items():
            kind = feature.WhichOneof("kind")
            if kind is None:
                continue
            values = list(getattr(feature, kind).value)
            fact = facts.setdefault(name, FeatureFacts(_KINDS[kind]))
            fact.kind = fact.kind if fact.kind == _KINDS[kind] else "mixed"
            fact.examples += bool(values)
            fact.least, fact.most = min(fact.least, len(values)), max(fact.most, len(values))
            if values and kind != "bytes_list":
                fact.lowest = min(values) if fact.lowest is None else min(fact.lowest, *values)
                fact.highest = max(values) if fact.highest is None else max(fact.highest, *values)
            if kind != "float_list" and len(fact.values) < 1000:
                fact.values.update(values)
    return facts


def contradictions(facts: dict[str, FeatureFacts], schema: Any) -> tuple[list[str], list[str]]:
    """Compares examples with a schema.

    Returns:
      What cannot be parsed by the schema, and what is odd.
    """
    from tensorflow_metadata.proto.v0 import schema_pb2

    wrong, odd = [], []
    domains = {domain.name: domain for domain in schema.string_domain}
    for feature in schema.feature:
        fact, kind = facts.get(feature.name), schema_pb2.FeatureType.Name(feature.type)
        if fact is None:
            if feature.presence.min_fraction == 1 and not feature.deprecated:
                hint = did_you_mean(feature.name, facts)
                odd.append(f"no example has the feature {feature.name!r}, which the schema requires.{hint}")
            continue
        if kind in _KINDS.values() and fact.kind != kind:
            wrong.append(f"feature {feature.name!r} is {fact.kind} in the examples and {kind} in the schema")
        size = 1
        for dimension in feature.shape.dim:
            size *= dimension.size
        if feature.HasField("shape") and fact.examples and (fact.least, fact.most) != (size, size):
            got = fact.least if fact.least == fact.most else f"{fact.least} to {fact.most}"
            wrong.append(f"feature {feature.name!r} has {got} values in the examples and {size} in the schema")
        odd += _out_of_domain(feature, fact, domains)
    return wrong, odd


def label_problem(label: str, names: Sequence[str]) -> str:
    """Returns what is wrong with a label that no example has; "" when they have it."""
    if label in names:
        return ""
    there = ", ".join(sorted(names)[:30])
    return f"no example has the label {label!r}; they have {there}.{did_you_mean(label, names)}"


def facts_shown(facts: dict[str, FeatureFacts], label: str = "") -> str:
    """Returns the features in one line: "4 FLOAT (…), 1 INT (variety, the label: 0, 1, 2)"."""
    groups: dict[str, list[str]] = {}
    for name, fact in sorted(facts.items()):
        many = "" if fact.most <= 1 else f"[{fact.most}]"
        groups.setdefault(fact.kind, []).append(f"{name}{many}")
    parts = []
    for kind, names in groups.items():
        more = ", …" if len(names) > _SHOWN else ""
        parts.append(f"{len(names)} {kind} ({', '.join(names[:_SHOWN])}{more})")
    text = ", ".join(parts)
    return f"{text}; label {label}: {_values_of(facts[label])}" if label in facts else text


def _values_of(fact: FeatureFacts) -> str:
    if fact.values and len(fact.values) <= _SHOWN:
        return ", ".join(
            one.decode("utf-8", "replace") if isinstance(one, bytes) else str(one) for one in sorted(fact.values)
        )
    return f"{len(fact.values)} values" if fact.lowest is None else f"{fact.lowest:.4g} to {fact.highest:.4g}"


def _out_of_domain(feature: Any, fact: FeatureFacts, domains: dict[str, Any]) -> list[str]:
    number = feature.int_domain if feature.HasField("int_domain") else feature.float_domain
    has_max = number.HasField("max") and fact.highest is not None and fact.highest > number.max
    has_min = number.HasField("min") and fact.lowest is not None and fact.lowest < number.min
    if has_max or has_min:
        return [f"feature {feature.name!r} goes from {fact.lowest:g} to {fact.highest:g}, out of its domain"]
    known = domains[feature.domain].value if feature.domain in domains else feature.string_domain.value
    strange = [
        value for value in fact.values if isinstance(value, bytes) and value.decode("utf-8", "replace") not in known
    ]
    if known and strange:
        return [f"feature {feature.name!r} has {strange[0]!r}, which is not in its domain"]
    return []


def _text(word: bytes) -> str:
    return word.decode("utf-8", "replace")
