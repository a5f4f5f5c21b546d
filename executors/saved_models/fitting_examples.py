"""Decides whether a signature takes raw or transformed examples, where there is a Transform graph.

kind_for(signature, {RAW: {"age": "int64"}, TRANSFORMED: {"age": "float32"}})
# ("transformed", "signature serving_default takes features that only transformed examples have")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..errors import InputError
from ..inputs.example_kinds import RAW, TRANSFORMED
from .feeding import feeding_of_dtypes
from .parsing_ops import ParsedFeature
from .signatures import ServedSignature

Dtypes = Mapping[str, str]  # {feature: "int64", "float32" or "string"}


def kind_for(signature: ServedSignature, tables: Mapping[str, Dtypes], trained_on: str = "") -> tuple[str, str]:
    """Returns the kind of examples that a signature takes and the reason; ("", problem) if none fits.

    Args:
      signature: The signature.
      tables: {RAW or TRANSFORMED: features of these examples}; RAW alone if there is no Transform graph.
      trained_on: The kind that the model was trained on; "" if unknown.
    """
    for casts in (False, True):  # floats without a fraction become integers, but other examples may have integers
        problems = {kind: _problem(signature, table, casts) for kind, table in tables.items()}
        if fitting := [kind for kind, problem in problems.items() if not problem]:
            break
    if list(tables) == [RAW]:
        return (RAW, "there is no Transform graph") if fitting else ("", problems[RAW])
    if RAW in fitting and signature.transforms:
        return RAW, f"signature {signature.name} contains the Transform graph"
    if signature.transforms and fitting:
        return "", f"signature {signature.name} contains the Transform graph, but there are no raw examples that fit"
    if len(fitting) == 1:
        return fitting[0], f"signature {signature.name} takes features that only {fitting[0]} examples have"
    if fitting and trained_on == RAW:
        return RAW, "the model was trained on raw features"
    if fitting:
        why = "has no Transform graph, and the model was trained on transformed features"
        return TRANSFORMED, f"signature {signature.name} {why}"
    return "", "; ".join(f"{kind} examples: {problem}" for kind, problem in problems.items())


def _problem(signature: ServedSignature, features: Dtypes, casts: bool) -> str:
    """Returns why examples with these features do not fit a signature; "" if they do, or do if `casts` to integers."""
    try:
        feeding = feeding_of_dtypes(signature, features)
    except InputError as error:
        return str(error)
    inputs = {served.name: served for served in signature.inputs}
    parsings = [parsing for name in feeding.records if (parsing := inputs[name].parsing)]
    if missing := _unparsable([feature for parsing in parsings for feature in parsing.features], features):
        names = ", ".join(missing[:5])
        return f"signature {signature.name} parses features that the examples do not have: {names}"
    for name, feature in feeding.features.items():
        if not _may_fill(inputs[name].dtype, features[feature], casts):
            return (
                f"signature {signature.name} takes tensors that the examples do not have: {name} "
                f"({inputs[name].dtype}); the feature {feature!r} has {features[feature]} values"
            )
    return ""


def _unparsable(parsed: Sequence[ParsedFeature], features: Dtypes) -> list[str]:
    """Returns the parsed features that are missing or of another type."""
    odd = [
        feature.name
        for feature in parsed
        if (feature.required and feature.name not in features)
        or features.get(feature.name, feature.dtype) != feature.dtype
    ]
    return odd or ([] if any(feature.name in features for feature in parsed) else [feature.name for feature in parsed])


def _may_fill(dtype: str, feature: str, casts: bool) -> bool:
    if dtype == "variant" or (feature == "string") != (dtype == "string"):
        return False
    return casts or not (feature == "float32" and dtype.startswith(("int", "uint", "bool")))
