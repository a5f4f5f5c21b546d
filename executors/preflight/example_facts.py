"""Statistics of examples by feature, and comparisons with a schema, a label and another split."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from ..errors import did_you_mean
from ..inputs.message_text import short_repr, shorten
from ..inputs.tf_examples import features_in

if TYPE_CHECKING:
    from tensorflow_metadata.proto.v0 import schema_pb2

    from ..evaluation.features import FeatureSummary
    from ..saved_models.sample_input import Value

_KINDS = ("BYTES", "FLOAT", "INT")
_TYPES = {str: "BYTES", bytes: "BYTES", float: "FLOAT", int: "INT", bool: "INT"}  # Python types of values in tables
_MAX_SHOWN = 8  # features or values listed in one line
_MAX_CHARACTERS = 100  # shown of a value
_MAX_PROBLEMS = 20  # maximum number of problems listed
_MIN_OCCURRENCES = 10  # minimum average count of each distinct value for a feature to be treated as categorical
MAX_VALUES = 1000  # distinct values kept for each feature
_FEW_VALUES = 50  # a summary lists the values of an integer feature with at most this many distinct ones


@dataclasses.dataclass
class FeatureFacts:
    """Statistics of a feature over some examples.

    Attributes:
      kind: "BYTES", "FLOAT" or "INT", as in a schema; "mixed" if examples differ.
      examples: Number of examples with at least one value.
      least, most: Minimum and maximum number of values in an example.
      lowest, highest: Minimum and maximum of the finite numbers; None without any, and for strings.
      not_finite: Number of values that are NaN or infinite.
      values: Distinct strings or integers, about `MAX_VALUES` at most.
    """

    kind: str
    examples: int = 0
    least: int = 1 << 62
    most: int = 0
    lowest: float | None = None
    highest: float | None = None
    values: set[Any] = dataclasses.field(default_factory=set)
    not_finite: int = 0

    def take(self, kind: str, values: list[Any]) -> None:
        """Adds an example's values to the statistics."""
        self.kind = self.kind if self.kind == kind else "mixed"
        self.examples += bool(values)
        self.least, self.most = min(self.least, len(values)), max(self.most, len(values))
        if kind != "BYTES" and (finite := [value for value in values if math.isfinite(value)]):
            self.lowest = min(finite) if self.lowest is None else min(self.lowest, *finite)
            self.highest = max(finite) if self.highest is None else max(self.highest, *finite)
        if kind == "FLOAT":
            self.not_finite += sum(not math.isfinite(value) for value in values)
        elif len(self.values) < MAX_VALUES:
            self.values.update(values)

    def summary(self) -> FeatureSummary:
        """Returns the statistics as JSON values, for `evaluation.features`.

        Contains values only of integer features with at most 50 distinct ones.
        """
        values = sorted(self.values) if self.kind == "INT" and len(self.values) <= _FEW_VALUES else []
        names = ("kind", "least", "most", "lowest", "highest")
        return cast("FeatureSummary", {**{name: getattr(self, name) for name in names}, "values": values})


def facts_of(records: Iterable[bytes | Mapping[str, object]]) -> dict[str, FeatureFacts]:
    """Computes statistics of serialized tf.Examples by feature, or of rows of tables by column.

    Raises:
      google.protobuf.message.DecodeError: If a record is not a tf.Example.
    """
    facts: dict[str, FeatureFacts] = {}
    for record in records:
        for name, kind, values in _row(record) if isinstance(record, Mapping) else features_in(record):
            facts.setdefault(name, FeatureFacts(kind)).take(kind, values)
    return facts


def _row(row: Mapping[str, object]) -> Iterator[tuple[str, str, list[Any]]]:
    """Yields name, kind and values of a row's columns; skips values of types that a tf.Example does not have."""
    for name, value in row.items():
        values = [item for item in (value if isinstance(value, list) else [value]) if item is not None]
        kinds = {_TYPES.get(type(item), "") for item in values}
        if len(kinds) == 1 and (kind := kinds.pop()):
            yield name, kind, values


def differences(
    train: dict[str, FeatureFacts], evaluation: dict[str, FeatureFacts], is_whole: bool
) -> tuple[list[str], list[str]]:
    """Compares training and evaluation examples.

    Args:
      train: Statistics of the training examples.
      evaluation: Statistics of the evaluation examples.
      is_whole: Whether the statistics cover all examples; only then are values missing from train reported.

    Returns:
      Errors (features of different types) and warnings.
    """
    errors, warnings = [], []
    for name in sorted({*train, *evaluation}):
        before, after, called = train.get(name), evaluation.get(name), short_repr(name)
        if before is None or after is None:
            has, lacks = ("train", "eval") if before else ("eval", "train")
            warnings.append(f"feature {called} is in {has} but not in {lacks}")
        elif before.kind != after.kind:
            errors.append(f"feature {called} is {before.kind} in train and {after.kind} in eval")
        elif before.least == before.most and after.least == after.most and before.most != after.most:
            warnings.append(f"feature {called} has {_count(before.most)} in train and {_count(after.most)} in eval")
        elif is_whole and (new_values := _new_values(before, after)):
            value = short_repr(new_values[0])
            warnings.append(f"feature {called} has the value {value} in eval, which does not occur in train")
    return first_problems(errors), first_problems(warnings)


def value_warnings(facts: dict[str, FeatureFacts], label: str, split: str, count: int) -> list[str]:
    """Returns warnings about NaN or infinite values, and about examples without the label.

    Args:
      facts: Statistics of the split.
      label: The label's name, or "".
      split: The split's name.
      count: Number of examples that `facts` covers.
    """
    warnings = [
        f"feature {short_repr(name)} has {_count(fact.not_finite, 'NaN or infinite value')} in {split}"
        for name, fact in sorted(facts.items())
        if fact.not_finite
    ]
    if label in facts and facts[label].examples < count:
        warnings.insert(0, f"{count - facts[label].examples:,} of {count:,} {split} examples have no label {label!r}")
    return first_problems(warnings)


def first_problems(problems: list[str]) -> list[str]:
    """Returns the first 20 problems, and if there are more, a last entry with the number of the others."""
    more = len(problems) - _MAX_PROBLEMS
    return problems if more <= 0 else [*problems[:_MAX_PROBLEMS], f"and {more:,} more"]


def _new_values(train: FeatureFacts, evaluation: FeatureFacts) -> list[Value]:
    """Returns values that only eval has, for categorical features; [] for others."""
    is_complete = max(len(train.values), len(evaluation.values)) < MAX_VALUES
    is_vocabulary = is_complete and 0 < _MIN_OCCURRENCES * len(train.values) <= train.examples
    return sorted(evaluation.values - train.values, key=_sort_key) if is_vocabulary else []


def _sort_key(value: Value) -> tuple[bool, Any]:
    return isinstance(value, bytes), value  # a feature of kind "mixed" has strings and numbers


def _count(number: int, what: str = "value") -> str:
    return f"1 {what}" if number == 1 else f"{number:,} {what}s"


def contradictions(facts: dict[str, FeatureFacts], schema: schema_pb2.Schema) -> tuple[list[str], list[str]]:
    """Compares examples with a schema.

    Returns:
      Errors (features that cannot be parsed by the schema) and warnings (missing features, values out of domain).
    """
    from tensorflow_metadata.proto.v0 import schema_pb2

    errors, warnings = [], []
    domains = {domain.name: domain for domain in schema.string_domain}
    for feature in schema.feature:
        fact, kind = facts.get(feature.name), schema_pb2.FeatureType.Name(feature.type)
        if fact is None:
            if feature.presence.min_fraction == 1 and not feature.deprecated:
                hint = did_you_mean(feature.name, facts)
                warnings.append(f"no example has the feature {feature.name!r}, which the schema requires.{hint}")
            continue
        if kind in _KINDS and fact.kind != kind:
            errors.append(f"feature {feature.name!r} is {fact.kind} in the examples and {kind} in the schema")
        size = math.prod(dimension.size for dimension in feature.shape.dim)
        if feature.HasField("shape") and fact.examples and (fact.least, fact.most) != (size, size):
            got = fact.least if fact.least == fact.most else f"{fact.least} to {fact.most}"
            errors.append(f"feature {feature.name!r} has {got} values in the examples and {size} in the schema")
        warnings += _out_of_domain(feature, fact, domains)
    return first_problems(errors), first_problems(warnings)


def facts_text(facts: dict[str, FeatureFacts], label: str = "") -> str:
    """Returns the features in one line: "4 FLOAT (…), 1 INT (variety, the label: 0, 1, 2)"."""
    groups: dict[str, list[str]] = {}
    for name, fact in sorted(facts.items()):
        many = "" if fact.most <= 1 else f"[{fact.most}]"
        groups.setdefault(fact.kind, []).append(f"{name}{many}")
    parts = []
    for kind, names in groups.items():
        more = ", …" if len(names) > _MAX_SHOWN else ""
        parts.append(f"{len(names)} {kind} ({', '.join(shorten(name) for name in names[:_MAX_SHOWN])}{more})")
    text = ", ".join(parts)
    return f"{text}; label {label}: {_values_of(facts[label])}" if label in facts else text


def _values_of(fact: FeatureFacts) -> str:
    if fact.values and len(fact.values) <= _MAX_SHOWN:
        return ", ".join(
            value[:_MAX_CHARACTERS].decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
            for value in sorted(fact.values, key=_sort_key)
        )
    return f"{len(fact.values)} values" if fact.lowest is None else f"{fact.lowest:.4g} to {fact.highest:.4g}"


def _out_of_domain(
    feature: schema_pb2.Feature, fact: FeatureFacts, domains: dict[str, schema_pb2.StringDomain]
) -> list[str]:
    number = feature.int_domain if feature.HasField("int_domain") else feature.float_domain
    has_max = number.HasField("max") and fact.highest is not None and fact.highest > number.max
    has_min = number.HasField("min") and fact.lowest is not None and fact.lowest < number.min
    if has_max or has_min:
        return [f"feature {feature.name!r} ranges from {fact.lowest:g} to {fact.highest:g}, outside its domain"]
    known = domains[feature.domain].value if feature.domain in domains else feature.string_domain.value
    unknown = [
        value for value in fact.values if isinstance(value, bytes) and value.decode("utf-8", "replace") not in known
    ]
    if known and unknown:
        return [f"feature {feature.name!r} has the value {shorten(repr(unknown[0]))}, which is not in its domain"]
    return []
