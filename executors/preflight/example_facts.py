"""What examples hold, feature by feature, and how that goes with a schema and with the label."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from ..errors import did_you_mean
from ..inputs.shown import cut, shown

if TYPE_CHECKING:
    from tensorflow_metadata.proto.v0 import schema_pb2

    from ..evaluation.features import FeatureSummary
    from ..saved_models.sample_input import Value

_KINDS = {"bytes_list": "BYTES", "float_list": "FLOAT", "int64_list": "INT"}
_TYPES = {str: "BYTES", bytes: "BYTES", float: "FLOAT", int: "INT", bool: "INT"}  # of Parquet
_SHOWN = 8  # features, in one line
_CHARACTERS = 100  # of a value
_LISTED = 20  # problems
_OFTEN = 10  # times that a value is there on average, from which on the values are taken for a vocabulary
MOST_VALUES = 1000  # of a feature that are kept
_FEW_VALUES = 50  # of a feature that a summary names


@dataclasses.dataclass
class FeatureFacts:
    """What some examples hold of a feature.

    Attributes:
      kind: "BYTES", "FLOAT" or "INT", as in a schema; "mixed" when examples differ.
      examples: How many have it.
      least, most: How many values they have of it.
      lowest, highest: Of numbers, the bounds of those that are finite; None for words.
      not_finite: How many values are NaN or infinite.
      values: Some of the words, or of the integers.
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
        """Takes note of an example's values."""
        self.kind = self.kind if self.kind == kind else "mixed"
        self.examples += bool(values)
        self.least, self.most = min(self.least, len(values)), max(self.most, len(values))
        if kind != "BYTES" and (finite := [value for value in values if math.isfinite(value)]):
            self.lowest = min(finite) if self.lowest is None else min(self.lowest, *finite)
            self.highest = max(finite) if self.highest is None else max(self.highest, *finite)
        if kind == "FLOAT":
            self.not_finite += sum(not math.isfinite(value) for value in values)
        elif len(self.values) < MOST_VALUES:
            self.values.update(values)

    def summary(self) -> FeatureSummary:
        """Returns the facts as JSON values, for `evaluation.features`; of words and of many numbers no values."""
        values = sorted(self.values) if self.kind == "INT" and len(self.values) <= _FEW_VALUES else []
        names = ("kind", "least", "most", "lowest", "highest")
        return cast("FeatureSummary", {**{name: getattr(self, name) for name in names}, "values": values})


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
            facts.setdefault(name, FeatureFacts(_KINDS[kind])).take(_KINDS[kind], list(getattr(feature, kind).value))
    return facts


def facts_of_rows(rows: Iterable[Mapping[str, object]]) -> dict[str, FeatureFacts]:
    """Looks through rows of Parquet; columns of other types than a tf.Example's are left out."""
    facts: dict[str, FeatureFacts] = {}
    for row in rows:
        for name, value in row.items():
            values = [one for one in (value if isinstance(value, list) else [value]) if one is not None]
            kinds = {_TYPES.get(type(one), "") for one in values}
            if len(kinds) == 1 and (kind := kinds.pop()):
                facts.setdefault(name, FeatureFacts(kind)).take(kind, values)
    return facts


def differences(
    train: dict[str, FeatureFacts], evaluation: dict[str, FeatureFacts], is_whole: bool
) -> tuple[list[str], list[str]]:
    """Compares the examples to train on with those to evaluate on.

    Args:
      train: What the former hold.
      evaluation: What the latter hold.
      is_whole: Whether these are all examples, so that a word that is not there is nowhere.

    Returns:
      What cannot be read in the same way, and what is odd.
    """
    wrong, odd = [], []
    for name in sorted({*train, *evaluation}):
        one, other, called = train.get(name), evaluation.get(name), shown(name)
        if one is None or other is None:
            odd.append(f"feature {called} is in {'train' if one else 'eval'} and not in {'eval' if one else 'train'}")
        elif one.kind != other.kind:
            wrong.append(f"feature {called} is {one.kind} in train and {other.kind} in eval")
        elif one.least == one.most and other.least == other.most and one.most != other.most:
            odd.append(f"feature {called} has {_count(one.most)} in train and {_count(other.most)} in eval")
        elif is_whole and (strange := _strange(one, other)):
            odd.append(f"feature {called} has {shown(strange[0])} in eval, which no example of train has")
    return first_of(wrong), first_of(odd)


def odd_values(facts: dict[str, FeatureFacts], label: str, split: str, count: int) -> list[str]:
    """Returns what is odd about values: of a feature that is not finite, and of a label that some examples lack.

    Args:
      facts: What the examples of the split hold.
      label: The label's name, or "".
      split: Its name.
      count: How many examples were looked at.
    """
    odd = [
        f"feature {shown(name)} has {_count(fact.not_finite)} in {split} that {_are(fact.not_finite)} NaN or infinite"
        for name, fact in sorted(facts.items())
        if fact.not_finite
    ]
    if label in facts and facts[label].examples < count:
        odd.insert(0, f"{count - facts[label].examples:,} of {count:,} examples of {split} have no label {label!r}")
    return first_of(odd)


def first_of(problems: list[str]) -> list[str]:
    """Returns the first problems, and how many more there are."""
    more = len(problems) - _LISTED
    return problems if more <= 0 else [*problems[:_LISTED], f"and {more:,} more like these"]


def _strange(train: FeatureFacts, evaluation: FeatureFacts) -> list[Value]:
    """Returns words and numbers of eval that train does not have, where a feature has a few that come many times."""
    is_vocabulary = 0 < _OFTEN * len(train.values) <= train.examples and len(evaluation.values) < MOST_VALUES
    return sorted(evaluation.values - train.values, key=_in_order) if is_vocabulary else []


def _in_order(value: Value) -> tuple[bool, Any]:
    return isinstance(value, bytes), value  # a feature may have both, words and numbers


def _count(number: int) -> str:
    return "1 value" if number == 1 else f"{number:,} values"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def contradictions(facts: dict[str, FeatureFacts], schema: schema_pb2.Schema) -> tuple[list[str], list[str]]:
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
    return first_of(wrong), first_of(odd)


def facts_shown(facts: dict[str, FeatureFacts], label: str = "") -> str:
    """Returns the features in one line: "4 FLOAT (…), 1 INT (variety, the label: 0, 1, 2)"."""
    groups: dict[str, list[str]] = {}
    for name, fact in sorted(facts.items()):
        many = "" if fact.most <= 1 else f"[{fact.most}]"
        groups.setdefault(fact.kind, []).append(f"{name}{many}")
    parts = []
    for kind, names in groups.items():
        more = ", …" if len(names) > _SHOWN else ""
        parts.append(f"{len(names)} {kind} ({', '.join(cut(name) for name in names[:_SHOWN])}{more})")
    text = ", ".join(parts)
    return f"{text}; label {label}: {_values_of(facts[label])}" if label in facts else text


def _values_of(fact: FeatureFacts) -> str:
    if fact.values and len(fact.values) <= _SHOWN:
        return ", ".join(
            one[:_CHARACTERS].decode("utf-8", "replace") if isinstance(one, bytes) else str(one)
            for one in sorted(fact.values, key=_in_order)
        )
    return f"{len(fact.values)} values" if fact.lowest is None else f"{fact.lowest:.4g} to {fact.highest:.4g}"


def _out_of_domain(
    feature: schema_pb2.Feature, fact: FeatureFacts, domains: dict[str, schema_pb2.StringDomain]
) -> list[str]:
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
        return [f"feature {feature.name!r} has {cut(repr(strange[0]))}, which is not in its domain"]
    return []
