"""Maps feature names to valid names of a signature's inputs.

TensorFlow makes each input of a signature an argument of a Python function and a node of a graph. So its name must be
an identifier of ASCII letters, digits and underscores that starts with a letter and is unique when case is ignored.
Features with a valid name keep it.

Usage:

    argument_names(["age", "capital-gain", "class", "x.y", "x-y"])
    # {"age": "age", "capital-gain": "capital_gain", "class": "class_", "x.y": "x_y_1", "x-y": "x_y"}
    feature_for("capital_gain", ["age", "capital-gain"])     # "capital-gain"
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection, Iterable

_USABLE = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_RESERVED = ("self",)  # conflicts with the bound argument when TensorFlow calls a signature with keyword arguments


def argument_names(features: Iterable[str]) -> dict[str, str]:
    """Returns {feature: name of its input}; the mapping does not depend on the order of the features.

    If several features map to the same name, all but one get a numeric suffix.
    """
    features = list(features)
    taken: dict[str, str] = {}  # name in lower case: feature
    for feature in sorted(filter(is_usable, features)):
        taken.setdefault(feature.lower(), feature)
    names = {feature: feature for feature in taken.values()}
    for feature in sorted(set(features) - set(names)):
        wanted = name = _adapted(feature)
        number = 0
        while name.lower() in taken:
            number += 1
            name = f"{wanted}_{number}"
        taken[name.lower()] = feature
        names[feature] = name
    return {feature: names[feature] for feature in features}


def feature_for(name: str, features: Collection[str]) -> str | None:
    """Returns the feature that an input's name was derived from; None if no feature or several match."""
    if name in features:
        return name
    matches = [feature for feature, own in argument_names(features).items() if own == name]
    matches = matches or [feature for feature in features if _adapted(feature) == name]
    return matches[0] if len(matches) == 1 else None


def is_usable(name: str) -> bool:
    """Whether the name is valid for an input of a signature."""
    return bool(_USABLE.fullmatch(name)) and not keyword.iskeyword(name) and name not in _RESERVED


def _adapted(name: str) -> str:
    if is_usable(name):
        return name
    adapted = re.sub(r"[^A-Za-z0-9_]", "_", name)
    adapted = adapted if adapted[:1].isalpha() else f"arg_{adapted}"
    return adapted if is_usable(adapted) else f"{adapted}_"
