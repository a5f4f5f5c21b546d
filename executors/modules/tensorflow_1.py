"""Advice for code of TensorFlow 1 that runs with TensorFlow 2, from the message of the exception that it causes.

hint_for_text("module 'tensorflow._api.v2.train' has no attribute 'AdamOptimizer'")
# "tf.train.AdamOptimizer is a name of TensorFlow 1. Use tf.compat.v1.train.AdamOptimizer, or …"
hint_for_text("module 'tensorflow_transform' has no attribute 'string_to_int'")
# "TensorFlow Transform has no string_to_int any more. Use tft.compute_and_apply_vocabulary(x)."
"""

from __future__ import annotations

import functools
import re

from ..runtime.logs.exceptions import chain, message_of

_MESSAGES = (
    re.compile(r"module '(?P<module>(?:tensorflow|tf_keras|keras)[\w.]*)' has no attribute '(?P<name>\w+)'"),
    re.compile(r"cannot import name '(?P<name>\w+)' from '(?P<module>tensorflow[\w.]*)'"),
    re.compile(r"No module named '(?P<module>tensorflow)\.(?P<name>\w+)"),
)
_OF_DATASETS = re.compile(r"'\w*Dataset\w*' object has no attribute '(\w+)'")
# The internal names of public namespaces: `tensorflow._api.v2.train` is `tf.train`, `tf_keras.api._v2.keras.losses` is
# `tf.losses`.
_NAMESPACE = re.compile(
    r"^(tensorflow_estimator\.python(?=\.estimator)(\.estimator\.api\._v[12])?|(tf_)?keras(\.api(\._v[12]\.keras)?"
    r"|\._tf_keras\.keras)?|tensorflow)(\._api\.v2)?((\.compat)?\.v[12])*\.?"
)
_OF_TRANSFORM = (
    re.compile(r"module 'tensorflow_transform[\w.]*' has no attribute '(\w+)'"),
    re.compile(r"cannot import name '(\w+)' from 'tensorflow_transform[\w.]*'"),
    re.compile(r"No module named 'tensorflow_transform[\w.]*\.(\w+)'"),
    # Methods of the schema, which is a protocol buffer now: its errors have only the name.
    re.compile(r"^(?:AttributeError: )?(as_feature_spec|as_batched_placeholders)$", re.MULTILINE),
)
# Of Transform's names, which TFX's own modules up to 0.26 use: the installed package does not show the replacements.
_REPLACEMENTS = {
    "partially_apply_saved_transform": "tft.TFTransformOutput(folder).transform_raw_features(features), with the "
    "folder above transform_fn; it returns the transformed features only",
    "input_fn_maker": "tft.TFTransformOutput(folder), and tf.estimator.export for the serving input",
    "as_feature_spec": "tft.TFTransformOutput(folder).transformed_feature_spec(), with the folder above "
    "transformed_metadata, or schema_utils.schema_as_feature_spec(schema).feature_spec",
    "as_batched_placeholders": "tf.compat.v1.placeholder for each feature of the schema",
    "dataset_schema": "tensorflow_transform.tf_metadata.schema_utils, such as schema_from_feature_spec(feature_spec)",
    "uniques": "tft.vocabulary(x)",
    "string_to_int": "tft.compute_and_apply_vocabulary(x)",
    "apply_vocab": "tft.apply_vocabulary(x, deferred_vocab_filename_tensor)",
    "apply_function": "the function itself: function(x)",
}


def hint(error: BaseException) -> str:
    """Returns `hint_for_text` for the messages of an exception and of those handled when it was raised."""
    return hint_for_text("\n".join(message_of(cause) for cause in chain(error)))


def hint_for_text(text: str) -> str:
    """Returns advice for the first name of TensorFlow 1 or early Transform that a message reports as missing; or ""."""
    matches = (match for pattern in _MESSAGES for match in pattern.finditer(text))
    hints = (_hint(match["module"], match["name"]) for match in matches)
    return next(filter(None, hints), "") or _hint_for_datasets(text) or _hint_for_transform(text)


def _hint(module: str, name: str) -> str:
    namespace = _NAMESPACE.sub("", module)
    path = f"{namespace}.{name}" if namespace else name
    if path.partition(".")[0] == "contrib":
        return (
            "tf.contrib is a name of TensorFlow 1, and TensorFlow 2 has no replacement for it as a whole. Use "
            "tf.compat.v1.layers for tf.contrib.layers, the package tf-slim for tf.contrib.slim, and fn_args or a "
            "dict for tf.contrib.training.HParams."
        )
    if not _is_tensorflow_1(path):
        return _hint_for_unknown(path) if module.partition(".")[0] == "tensorflow" else ""
    return f"tf.{path} is a name of TensorFlow 1. Use tf.compat.v1.{path}, or import tensorflow.compat.v1 as tf."


def _hint_for_unknown(path: str) -> str:
    import tensorflow as tf

    return (
        f"Neither TensorFlow {tf.__version__} nor tf.compat.v1 has tf.{path}. If it is not misspelled, it is a name of "
        "another release, or of a fork such as DeepRec, and there is no replacement for it."
    )


def _hint_for_datasets(text: str) -> str:
    for name in _OF_DATASETS.findall(text):
        if _is_tensorflow_1(f"data.{name}"):
            return f"Datasets have no {name} in TensorFlow 2. Use tf.compat.v1.data.{name}(dataset)."
        if _is_tensorflow_1(f"data.get_{name}"):
            return f"Datasets have no {name} in TensorFlow 2. Use tf.compat.v1.data.get_{name}(dataset)."
    return ""


def _hint_for_transform(text: str) -> str:
    names = (name for pattern in _OF_TRANSFORM for name in pattern.findall(text))
    name = next((name for name in names if name in _REPLACEMENTS), "")
    return name and f"TensorFlow Transform has no {name} any more. Use {_REPLACEMENTS[name]}."


def _is_tensorflow_1(path: str) -> bool:
    """Whether `tf.compat.v1` has a name."""
    import tensorflow as tf

    try:
        functools.reduce(getattr, path.split("."), tf.compat.v1)
    except (AttributeError, ImportError):
        return False
    return True
