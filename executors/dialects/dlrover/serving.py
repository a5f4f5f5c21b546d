"""What the exported model is fed with: the columns by name, or serialized tf.Examples; the label is no part of it.

DLRover's exports take each column as a vector, and so does `serving_default` here. "examples:" before a signature's
name gives the same one over serialized tf.Examples. For a model that was trained on tf.Examples, as in a TFX pipeline,
it is the other way round: `serving_default` takes these, as TFX's components expect, and "columns:" marks the others.
"""

from __future__ import annotations

import tensorflow as tf

from ...inputs.csv.delimited import Field, split_values
from ..estimators.inputs import ServingInputReceiverFn
from .columns import Columns
from .examples import joined, parse_examples

_EXAMPLES = "examples"
_COLUMNS = "columns"
_SCOPE = "serving_input"


def serving_input_receiver_fn(
    columns: Columns, takes_examples: bool, with_label: bool = False
) -> ServingInputReceiverFn:
    """Returns the function that an exporter calls.

    Args:
      columns: The columns that the model was evaluated with.
      takes_examples: Whether `serving_default` takes tf.Examples.
      with_label: Whether the signature by columns takes the label too, as DLRover's did; the model does not get it.
    """

    def receiver_fn() -> tf.estimator.export.ServingInputReceiver:
        # In a scope: an op with a column's name would rename the model's variable of that name.
        with tf.name_scope(_SCOPE):
            examples = tf.compat.v1.placeholder(tf.string, [None], name=_EXAMPLES)
            parsed = parse_examples(examples, columns.features, columns.kinds, columns.value_delim)
            raw = {field.name: _by_itself(parsed[field.name], field, columns.value_delim) for field in columns.features}
            features = {
                field.name: split_values(raw[field.name], field, columns.value_delim)
                if field.is_sparse
                else raw[field.name]
                for field in columns.features
            }
            if with_label:
                [label] = (field for field in columns.fields if field.name == columns.label)
                raw[label.name] = tf.compat.v1.placeholder(label.dtype, [None])
        serialized = {_EXAMPLES: examples}
        receivers = (serialized, {_COLUMNS: raw}) if takes_examples else (raw, {_EXAMPLES: serialized})
        return tf.estimator.export.ServingInputReceiver(features, *receivers)

    return receiver_fn


def _by_itself(parsed: tf.Tensor | tf.SparseTensor, field: Field, delim: str) -> tf.Tensor:
    """Returns a column out of a tf.Example as a vector that can be fed in place of it; a sparse one as text."""
    return tf.compat.v1.placeholder_with_default(joined(parsed, delim) if field.is_sparse else parsed, [None])
