"""Finds the feature of the examples that contains the label that a model is fitted to.

Candidates are the feature that the user names, and each feature that Transform computes from it, whatever its name.
They are compared with the labels in `fit` by type, shape and, after a trial, values. A feature that the module converts
to the labels itself, as with a lookup table, has a `LabelMapping`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

from ..errors import did_you_mean
from ..inputs.example_kinds import RAW, TRANSFORMED
from ..inputs.message_text import closest_names
from .evidence import LabelEvidence
from .features import ExampleFeatures, Feature
from .label_mapping import LabelMapping
from .overrides import parse_labels

_CONVERTED = "the training converts its values to the model's targets"
_TOLERANCE = 1e-5  # relative, for values that went through float32


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A feature that may contain the label."""

    feature: Feature
    is_transformed: bool


@dataclasses.dataclass(frozen=True)
class Choice:
    """The selected feature with the label.

    Attributes:
      candidate: The feature; None if no candidate matches.
      reason: Why it was selected, or why no candidate matches.
      one_hot_by_module: Whether the module converts it to one-hot vectors; the feature itself has class indices.
      mapping: How the module converts its values; None if they are the model's targets.
    """

    candidate: Candidate | None
    reason: str
    one_hot_by_module: bool = False
    mapping: LabelMapping | None = None


def label_problem(label: str, raw: Collection[str], transformed: Collection[str] | None = None) -> str:
    """Returns the problem with a label that is in neither raw nor transformed examples; "" if one of them has it."""
    names = sorted({*raw, *(transformed or ())})
    if label in names:
        return ""
    which = "the examples have no" if transformed is None else "neither the raw nor the transformed examples have a"
    hint = did_you_mean(label, names)
    known = f"; they have {closest_names(names, near=label)}" if names and not hint else ""
    return f"{which} label feature {label!r}{known}.{hint}"


def problem_of_labels(text: str, raw: Collection[str], transformed: Collection[str] | None = None) -> str:
    """Returns the first `label_problem` of the features that a `label` option names; see `parse_labels`."""
    problems = (label_problem(label, raw, transformed) for label in parse_labels(text).values())
    return next(filter(None, problems), "")


def candidates_of(label: str, features: ExampleFeatures, inputs: Collection[str] = ()) -> list[Candidate]:
    """Returns the features that may contain the label that a user names, the likeliest first.

    Includes transformed features computed from several raw ones: whether a tip is big, from tip and fare.

    Args:
      label: A raw or a transformed feature.
      features: All features.
      inputs: Features that the model is trained on; these are excluded as derived labels.
    """
    found = []
    transformed = features.transformed or {}
    if label in transformed:
        found.append(Candidate(transformed[label], True))
    if label in features.raw:
        derived = [
            name
            for name, origins in features.origins.items()
            if label in origins and name in transformed and name != label and name not in inputs
        ]
        derived.sort(key=lambda name: (len(features.origins[name]), not name.startswith(label), name))
        found += [Candidate(transformed[name], True) for name in derived]
        found.append(Candidate(features.raw[label], False))
    return found


def choose(
    candidates: Sequence[Candidate], y: LabelEvidence | None, trained_on: str, *, is_converted_back: bool = False
) -> Choice:
    """Returns the candidate that matches the labels that the model is fitted to.

    Args:
      candidates: Candidates from `candidates_of`.
      y: The labels in `fit`; None if they were not observed.
      trained_on: Kind of the training examples, RAW or TRANSFORMED; "" if unknown.
      is_converted_back: Whether the output is in the units of the raw label, which is then selected if it is a number.
    """
    if not candidates:
        return Choice(None, "no label is set")
    raw = [candidate for candidate in candidates if not candidate.is_transformed]
    if is_converted_back and raw and raw[0].feature.dtype != "string":
        return Choice(raw[0], "raw feature; the export computes the output from that of the fitted model")
    fitting, problems = [], []
    for one in candidates:
        mapping = _mapping_of(one, y, trained_on)
        problem = mapping.conflict if mapping else _problem(one.feature, y)
        if trained_on == TRANSFORMED and not one.is_transformed and len(candidates) > 1:
            problem = problem or "the module trains on transformed examples, which lack it"
        if problem:
            kind = "transformed" if one.is_transformed else "raw"
            problems.append(f"{kind} feature {one.feature.name!r}: {problem}")
        else:
            fitting.append(one)
    if not fitting:
        return Choice(None, "; ".join(problems))
    chosen = next((one for one in fitting if trained_on == RAW and not one.is_transformed), fitting[0])
    if mapping := _mapping_of(chosen, y, trained_on):
        return Choice(chosen, _CONVERTED, mapping=mapping)
    is_converted = _is_converted_to_one_hot(chosen.feature, y)
    return Choice(chosen, _reason(chosen, y), is_converted)


def converted_label(y: LabelEvidence | None, inputs: Collection[str]) -> Choice:
    """Returns the only feature whose values the module was seen to convert to the labels in `fit`.

    Args:
      y: The labels in `fit`; None if they were not observed.
      inputs: Features that the model is trained on, which are excluded.
    """
    mappings = [one for one in (y.mappings if y else ()) if one.is_certain and one.feature not in inputs]
    if len(mappings) != 1:
        return Choice(None, "no label is set")
    [mapping] = mappings
    dtype = "string" if isinstance(mapping.pairs[0][0], str) else "int64"
    return Choice(Candidate(Feature(mapping.feature, dtype), False), _CONVERTED, mapping=mapping)


def _mapping_of(candidate: Candidate, y: LabelEvidence | None, trained_on: str) -> LabelMapping | None:
    """Returns how the training converts a feature, if it is one of the examples that the module was trained on."""
    if trained_on and candidate.is_transformed != (trained_on == TRANSFORMED):
        return None
    return next((one for one in (y.mappings if y else ()) if one.feature == candidate.feature.name), None)


def _reason(chosen: Candidate, y: LabelEvidence | None) -> str:
    kind = "transformed" if chosen.is_transformed else "raw"
    if y is None:
        return f"{kind} feature; the labels in fit were not observed"
    if chosen.feature.is_sampled and y.lowest is not None:
        return f"{kind} feature with the values that the model is fitted to"
    return f"{kind} feature with the type and shape that the model is fitted to"


def _is_converted_to_one_hot(feature: Feature, y: LabelEvidence | None) -> bool:
    return y is not None and (y.width or 1) > 1 and feature.width == 1


def _problem(feature: Feature, y: LabelEvidence | None) -> str:
    """Returns why a feature cannot be the label that a model is fitted to; "" if it can."""
    if y is None:
        return "it has string values, and their conversion to labels is unknown" if feature.dtype == "string" else ""
    if y.dtype and (y.dtype == "string") != (feature.dtype == "string"):
        return f"it has dtype {feature.dtype}, but the model is fitted to {y.dtype}"
    is_converted = _is_converted_to_one_hot(feature, y)
    if is_converted and (y.is_one_hot is False or feature.dtype != "int64"):
        return f"it has one value per example, but the model is fitted to {y.width}"
    if not is_converted and feature.width is not None and y.width is not None and feature.width != y.width:
        return f"it has {feature.width} values per example, but the model is fitted to {y.width}"
    return _contradiction(feature, y)


def _contradiction(feature: Feature, y: LabelEvidence) -> str:
    """Returns a label value or range that the feature does not have in the sample; "" without a contradiction."""
    if not feature.is_sampled or y.lowest is None or y.highest is None:
        return ""
    is_converted = _is_converted_to_one_hot(feature, y)
    if y.is_one_hot and not is_converted:
        return ""  # both are vectors of zeros and ones
    if y.values and feature.values:
        missing = [one for one in y.values if not any(_is_close(one, other) for other in feature.values)]
        return f"it never has the value {missing[0]:g}, which the model is fitted to" if missing else ""
    if feature.lowest is None or feature.highest is None or is_converted:
        return ""
    slack = _TOLERANCE * max(abs(feature.lowest), abs(feature.highest), 1.0)
    if y.lowest < feature.lowest - slack or y.highest > feature.highest + slack:
        return (
            f"its values range from {feature.lowest:g} to {feature.highest:g}, but the model is fitted to values from "
            f"{y.lowest:g} to {y.highest:g}"
        )
    return ""


def _is_close(one: float, other: float) -> bool:
    return abs(one - other) <= _TOLERANCE * max(abs(one), abs(other), 1.0)
