"""Exports an ElasticDL model as a SavedModel with signatures for raw records and for the tensors from `feed`.

serving_default    records: serialized tf.Examples, lines, or rows of a CSV file as strings
tensors            the model's own inputs
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

import tensorflow as tf
from absl import logging

from ...compat.tensorflow import write_graph
from ...errors import ModuleError
from ...runtime.logs.exceptions import one_line_message
from ...saved_models.export_rehearsal import rehearsal
from ...saved_models.input_names import argument_names
from ...saved_models.sample_input import SAMPLED_EXAMPLES
from .job import Job, call_model
from .parts import PREDICTION, Parts
from .readers.reader_params import parse_reader_params
from .readers.records import Metadata, Records
from .record_reader import RECORDS, write_record_reader
from .shim.tensor_values import AnyTensor, Tensors

TENSORS = "tensors"
SERVING = "serving_default"

FeatureSpecs: TypeAlias = "tf.TypeSpec | Sequence[tf.TypeSpec] | Mapping[str, tf.TypeSpec]"
_Features = TypeVar("_Features")


def export(
    model: tf.keras.Model,
    parts: Parts,
    records: tf.data.Dataset,
    metadata: Metadata,
    folder: str,
    write: Callable[..., object] | None = None,
) -> bool:
    """Writes the SavedModel; returns whether its `serving_default` takes raw records.

    If feed cannot be exported, `serving_default` takes the tensors that feed returns, like the signature `tensors`.

    Args:
      model: The trained model.
      parts: The model file, for `feed`.
      records: The dataset of training records.
      metadata: The reader's metadata.
      folder: The directory to write to.
      write: Replacement for `tf.saved_model.save`, or None.

    Raises:
      ModuleError: When the records are not strings and feed returns sparse or ragged tensors, so that neither can be
        the inputs of a signature.
      Exception: Any exception of feed or of the model.
    """
    write = write or tf.saved_model.save
    spec = records.element_spec
    features = features_of(parts.feed(records, PREDICTION, metadata).element_spec)
    tensors = _tensor_signature(model, features)
    signatures = {} if tensors is None else {TENSORS: tensors, SERVING: tensors}
    if isinstance(spec, tf.TensorSpec) and spec.dtype == tf.string:
        records_too = {**signatures, SERVING: _record_signature(model, parts, metadata, spec)}
        try:
            write(model, folder, signatures=records_too)
            return True
        except (AssertionError, ValueError) as error:
            if not signatures:
                raise
            # For example, a lookup table that only a closure in feed references is untracked and cannot be saved.
            logging.warning(
                "The exported model takes tensors only, because feed cannot be exported: %s", str(error).split("\n")[0]
            )
    if not signatures:
        raise ModuleError(
            f"{parts.module.__file__}: feed returns {features} for records of {spec} in {PREDICTION}. An exported "
            "model takes strings or dense tensors: convert sparse and ragged tensors to dense ones in feed, or return "
            "strings from the reader."
        )
    write(model, folder, signatures=signatures)
    return False


def export_trained(model: tf.keras.Model, parts: Parts, records: Records, folder: str) -> bool:
    """Exports a trained model; returns whether its `serving_default` takes raw records."""
    takes_records = export(model, parts, records.dataset(), records.metadata, folder)
    if takes_records:
        sep = parse_reader_params(parts.options.data_reader_params).get("sep", ",")
        write_record_reader(folder, records, str(sep))
    return takes_records


def rehearse_export(job: Job, parts: Parts, records: Records, make_model: Callable[[], tf.keras.Model]) -> None:
    """Runs the export without weights, so that its errors are raised before training instead of after it.

    All workers do this: with a distribution strategy, each must build the same graphs in the same order.

    Args:
      job: The job.
      parts: The model file, for `feed`.
      records: The training records.
      make_model: Returns the model to export.
    """
    with rehearsal(job.inner) as folder:
        export(make_model(), parts, records.dataset(), records.metadata, folder, write_graph)


def sample_inputs(parts: Parts, records: Records, takes_records: bool) -> list[dict[str, list[object]]]:
    """Returns the inputs of `serving_default` for each of the first records, as {input: flat list of values}.

    Args:
      parts: The model file, for `feed`.
      records: The records to read.
      takes_records: Whether `serving_default` takes raw records, as returned by `export`.

    Returns:
      [] if feed fails on the records, or an input is not a dense tensor.
    """
    data = records.dataset().take(SAMPLED_EXAMPLES)
    try:
        given = data if takes_records else parts.feed(data, PREDICTION, records.metadata)
        elements = list(given)
    except Exception as error:  # feed is user code
        logging.warning("feed failed on the first records in %s: %s", PREDICTION, one_line_message(error))
        return []
    features = [{RECORDS: element} if takes_records else features_of(element) for element in elements]
    named = [values if isinstance(values, Mapping) else {"inputs": values} for values in features]
    if not all(isinstance(value, tf.Tensor) for by_name in named for value in by_name.values()):
        return []
    return [_flat_lists(by_name) for by_name in named]


def _flat_lists(tensors: Mapping[str, tf.Tensor]) -> dict[str, list[object]]:
    names = argument_names(tensors)
    return {names[name]: tf.reshape(value, [-1]).numpy().tolist() for name, value in tensors.items()}


def features_of(element: _Features | tuple[_Features, object]) -> _Features:
    """Returns the features of an element from feed, or of its spec; some files return labels for prediction, too."""
    return element[0] if isinstance(element, tuple) else element


def _tensor_signature(
    model: tf.keras.Model, features: FeatureSpecs
) -> tf.types.experimental.PolymorphicFunction | None:
    """Returns the signature of the model's own inputs; None unless all are dense tensors.

    It is not traced here but when it is saved, as only then TensorFlow reads the variables of a distribution strategy
    in a form that can be saved.
    """
    names = argument_names(features) if isinstance(features, Mapping) else {"inputs": "inputs"}
    specs: list[tf.TypeSpec] = list(features.values()) if isinstance(features, Mapping) else [features]
    if not all(isinstance(spec, tf.TensorSpec) for spec in specs):
        return None

    def call(*values: tf.Tensor) -> dict[str, AnyTensor]:
        given = {name: values[number] for number, name in enumerate(names)}
        return name_outputs(call_model(model, given if isinstance(features, Mapping) else given["inputs"], False))

    batch = tf.TensorShape([None])
    signature = [
        tf.TensorSpec(batch.concatenate(spec.shape), spec.dtype, name=name)
        for spec, name in zip(specs, names.values(), strict=True)
    ]
    return tf.function(call, input_signature=signature)


def _record_signature(
    model: tf.keras.Model, parts: Parts, metadata: Metadata, spec: tf.TensorSpec
) -> tf.types.experimental.PolymorphicFunction:
    def serve(records: tf.Tensor) -> dict[str, AnyTensor]:
        dataset = parts.feed(tf.data.Dataset.from_tensor_slices(records), PREDICTION, metadata)
        batch = dataset.batch(tf.shape(records, tf.int64)[0]).get_single_element()
        return name_outputs(call_model(model, features_of(batch), False))

    return tf.function(serve, input_signature=[tf.TensorSpec([None, *spec.shape], tf.string, name=RECORDS)])


def name_outputs(outputs: Tensors) -> dict[str, AnyTensor]:
    """Returns the outputs as a dict; a single one is named "output", as in ElasticDL, list items `output_{index}`."""
    if isinstance(outputs, Mapping):
        return dict(outputs)
    if isinstance(outputs, (list, tuple)):
        return {f"output_{number}": output for number, output in enumerate(outputs)}
    return {"output": outputs}
