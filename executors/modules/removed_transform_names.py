"""Advice for code of early TensorFlow Transform, from the message of the exception that it causes.

hint_for_text("module 'tensorflow_transform' has no attribute 'string_to_int'")
# "TensorFlow Transform has no string_to_int any more. Use tft.compute_and_apply_vocabulary(x)."
"""

from __future__ import annotations

import re

_MESSAGES = (
    re.compile(r"module 'tensorflow_transform[\w.]*' has no attribute '(\w+)'"),
    re.compile(r"cannot import name '(\w+)' from 'tensorflow_transform[\w.]*'"),
    re.compile(r"No module named 'tensorflow_transform[\w.]*\.(\w+)'"),
    # Methods of the schema, which is a protocol buffer now: its errors have only the name.
    re.compile(r"^(?:AttributeError: )?(as_feature_spec|as_batched_placeholders)$", re.MULTILINE),
)
# By name: the replacement, which the installed package does not show. TFX's own modules up to 0.26 use these names.
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


def hint_for_text(text: str) -> str:
    """Returns advice for the first removed name that a message reports as missing; "" without one."""
    names = (name for pattern in _MESSAGES for name in pattern.findall(text))
    name = next((name for name in names if name in _REPLACEMENTS), "")
    return name and f"TensorFlow Transform has no {name} any more. Use {_REPLACEMENTS[name]}."
