"""Decides what each input of a signature is fed: serialized records, or a feature of the examples.

The model check, `predict`, the evaluation and the error analysis all use this decision:

1. An input that the signature's graph parses gets the serialized records, unless only the feature of its name can be
   what the graph parses.
2. Any other input gets the feature of its name.
3. If no feature has its name, a signature's only input gets the records as they are if they are not tf.Examples; if it
   takes strings, it gets the only feature with strings.

Usage:

    feeding = feeding_of(signature, ["text", "label"], lambda: ["text"])
    feeding.features  # {"query": "text"}
    feeding.line()  # "input query: feature text, the only one with strings"
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping

from ..errors import InputError, did_you_mean
from ..inputs.message_text import closest_names
from .input_names import feature_for
from .signatures import ServedInput, ServedSignature


@dataclasses.dataclass(frozen=True)
class Feeding:
    """The records or features that the inputs of a signature get.

    Attributes:
      records: Inputs that get serialized records.
      features: {input: feature} of the other inputs.
      is_assumed: Whether the feature has another name than the input: it is the only one with strings.
      are_examples: Whether the records are tf.Examples, or of another kind that the graph parses.
    """

    records: tuple[str, ...] = ()
    features: Mapping[str, str] = dataclasses.field(default_factory=dict)
    is_assumed: bool = False
    are_examples: bool = True

    def line(self) -> str:
        """Returns the source of each input, with the reason, as one line of text."""
        why = "which its graph parses" if self.are_examples else "as they are: they are not tf.Examples"
        assumed = ", the only one with strings" if self.is_assumed else ""
        parts = [f"input {name}: serialized records, {why}" for name in self.records]
        return "; ".join(
            parts + [f"input {name}: feature {feature}{assumed}" for name, feature in self.features.items()]
        )


def feeding_of(
    signature: ServedSignature, features: Collection[str] | None, with_strings: Callable[[], Collection[str]]
) -> Feeding:
    """Returns the records or features that the inputs of a signature get.

    Args:
      signature: The signature.
      features: The features of the examples; None if the records are not tf.Examples.
      with_strings: Returns the features whose values are strings; called only if an input's feature has another name.

    Raises:
      InputError: If neither records nor a feature fit an input; lists inputs and features.
    """
    others = [served for served in signature.inputs if not _takes_records(served, features or (), with_strings)]
    records = tuple(served.name for served in signature.inputs if served not in others)
    if features is None and len(signature.inputs) == 1 and _may_take_records(signature.inputs[0]):
        return Feeding((signature.inputs[0].name,), are_examples=bool(records))
    named = {served.name: feature_for(served.name, features or ()) for served in others}
    fed = {name: feature for name, feature in named.items() if feature is not None}
    if len(fed) == len(others):
        return Feeding(records, fed)
    [only, *more] = signature.inputs
    if not more and features and only.dtype == "string" and not only.parsed_after:
        strings = list(with_strings())
        if len(strings) == 1:
            return Feeding(features={only.name: strings[0]}, is_assumed=True)
    raise InputError(_problem(signature, [served for served in others if served.name not in fed], features))


def feeding_of_dtypes(signature: ServedSignature, dtypes: Mapping[str, str]) -> Feeding:
    """Returns the records or features that its inputs get from tf.Examples; raises as `feeding_of`.

    Args:
      signature: The signature.
      dtypes: {feature: "int64", "float32" or "string"}.
    """
    return feeding_of(signature, dtypes, lambda: [name for name, dtype in dtypes.items() if dtype == "string"])


def _takes_records(served: ServedInput, features: Collection[str], with_strings: Callable[[], Collection[str]]) -> bool:
    """Whether an input gets the records; a feature may also have what the graph parses, such as an inner record."""
    if served.parsing is None or not served.is_parsed:
        return False
    return served.name not in features or served.parsing.fits(features) or served.name not in with_strings()


def _may_take_records(served: ServedInput) -> bool:
    return served.dtype == "string" and served.shape in ((), None)


def _problem(signature: ServedSignature, unfed: list[ServedInput], features: Collection[str] | None) -> str:
    first = unfed[0]
    inputs = ", ".join(f"{served.name} ({served.dtype})" for served in signature.inputs)
    parses = f", from which its graph parses records after {first.parsed_after}" if first.parsed_after else ""
    there = "none, as the records are not tf.Examples"
    if features is not None:
        there = closest_names(sorted(features), near=first.name) or "none"
    return (
        f"no feature {first.name!r}, which the signature {signature.name!r} takes{parses} (its inputs: {inputs}); "
        f"available features: {there}.{did_you_mean(first.name, features or ())}"
    )
