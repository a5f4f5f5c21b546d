"""Shows the features of an example as short texts, for tables of examples."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

_VALUES, _CHARACTERS = 8, 60  # values of a feature, characters of a value


def feature_texts(record: bytes, excluded: Collection[str]) -> dict[str, str]:
    """Returns {feature: text} of a serialized tf.Example, sorted by name, without the excluded features."""
    import tensorflow as tf

    features = tf.train.Example.FromString(record).features.feature
    return {name: _shown(features[name]) for name in sorted(features) if name not in excluded}


def _shown(feature: Any) -> str:
    kind = feature.WhichOneof("kind")
    return text_of(getattr(feature, kind).value if kind else ())


def text_of(values: Sequence[bytes | float]) -> str:
    """Returns the values of a feature as text: the first 8 of them, long strings cut."""
    texts = [_text(value) for value in values[:_VALUES]]
    return ", ".join(texts) + (f", … ({len(values)} values)" if len(values) > _VALUES else "")


def _text(value: bytes | float) -> str:
    if isinstance(value, bytes):
        from ..saved_models.tensor_values import text_excerpt

        return text_excerpt(value, _CHARACTERS)
    return f"{value:.5g}" if isinstance(value, float) else str(value)
