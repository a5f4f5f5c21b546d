"""An ElasticDL model as a SavedModel that takes raw records, as `feed` does, or the tensors that `feed` makes of them.

serving_default    records: serialized tf.Examples, lines, or rows of a CSV file as strings
tensors            the model's own inputs
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from absl import logging

from ...inputs.records import Records
from ...raised_errors import gist_of
from .job import call_model
from .parts import PREDICTION, Parts

TENSORS = "tensors"


def export(model: Any, parts: Parts, records: Any, metadata: Any, folder: str) -> bool:
    """Writes the SavedModel; returns whether it takes records, and not only the tensors that feed makes of them.

    Args:
      model: The trained model.
      parts: Its file, for `feed`.
      records: The dataset of records that it was trained on.
      metadata: What the reader tells of it.
      folder: Where to write.
    """
    spec = records.element_spec
    features = features_of(parts.feed(records, PREDICTION, metadata).element_spec)
    signatures = {TENSORS: _tensor_signature(model, features)}
    if isinstance(spec, tf.TensorSpec) and spec.dtype == tf.string:
        signatures["serving_default"] = _record_signature(model, parts, metadata, spec)
    else:
        signatures["serving_default"] = signatures[TENSORS]
    try:
        tf.saved_model.save(model, folder, signatures=signatures)
    except (AssertionError, ValueError) as error:
        # A table that only a closure of feed's holds cannot be saved along.
        logging.warning("The model takes tensors only, for its feed cannot be exported: %s", str(error).split("\n")[0])
        signatures["serving_default"] = signatures[TENSORS]
        tf.saved_model.save(model, folder, signatures=signatures)
    return signatures["serving_default"] is not signatures[TENSORS]


def first_inputs(parts: Parts, records: Records, takes_records: bool) -> dict[str, list[Any]]:
    """Returns what `serving_default` takes for the first record: {input: its values}; {} where it cannot be told."""
    data = records.dataset().take(1)
    try:
        given = data if takes_records else parts.feed(data, PREDICTION, records.metadata)
        first = next(iter(given), None)
    except Exception as error:  # feed is the user's
        logging.warning("feed makes no features of the first record in %s: %s", PREDICTION, gist_of(error))
        return {}
    features = {"records": first} if takes_records else features_of(first)
    by_name = features if isinstance(features, Mapping) else {"inputs": features}
    if not all(isinstance(value, tf.Tensor) for value in by_name.values()):
        return {}
    return {name: tf.reshape(value, [-1]).numpy().tolist() for name, value in by_name.items()}


def features_of(element: Any) -> Any:
    """Returns the features' part of what feed gives, or of its spec; some files give labels in prediction, too."""
    return element[0] if isinstance(element, tuple) else element


def _tensor_signature(model: Any, features: Any) -> Any:
    def batched(spec: Any) -> Any:
        return tf.TensorSpec([None, *spec.shape], spec.dtype)

    if not isinstance(features, Mapping):
        specs = {"inputs": batched(features)}
        return tf.function(lambda inputs: named(call_model(model, inputs, False))).get_concrete_function(**specs)
    specs = {name: batched(spec) for name, spec in features.items()}
    return tf.function(lambda **values: named(call_model(model, values, False))).get_concrete_function(
        **{name: tf.TensorSpec(spec.shape, spec.dtype, name=name) for name, spec in specs.items()}
    )


def _record_signature(model: Any, parts: Parts, metadata: Any, spec: Any) -> Any:
    def serve(records: Any) -> Any:
        dataset = parts.feed(tf.data.Dataset.from_tensor_slices(records), PREDICTION, metadata)
        batch = dataset.batch(tf.shape(records, tf.int64)[0]).get_single_element()
        return named(call_model(model, features_of(batch), False))

    return tf.function(serve, input_signature=[tf.TensorSpec([None, *spec.shape], tf.string, name="records")])


def named(outputs: Any) -> dict[str, Any]:
    """Returns outputs by name; ElasticDL calls the only one "output"."""
    if isinstance(outputs, Mapping):
        return dict(outputs)
    if isinstance(outputs, (list, tuple)):
        return {f"output_{number}": output for number, output in enumerate(outputs)}
    return {"output": outputs}
