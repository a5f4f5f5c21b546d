"""The serving signatures of the exported model: columns by name, or serialized tf.Examples, without the label.

As in DLRover's exports, `serving_default` takes each column as a vector; a signature with the prefix "examples:" takes
serialized tf.Examples instead. For a model that was trained on tf.Examples, as in a TFX pipeline, `serving_default`
takes tf.Examples, as TFX's components expect, and signatures with the prefix "columns:" take the columns.
"""

from __future__ import annotations

import tensorflow as tf

from ..estimators.inputs import ServingInputReceiverFn
from .columns import Columns
from .examples import parse_examples
from .text.delimited import split_values

_EXAMPLES = "examples"
_COLUMNS = "columns"
_SCOPE = "serving_input"


def serving_input_receiver_fn(
    columns: Columns, takes_examples: bool, with_label: bool = False
) -> ServingInputReceiverFn:
    """Returns a serving_input_receiver_fn for an exporter.

    Args:
      columns: The columns of the evaluation data.
      takes_examples: Whether `serving_default` takes tf.Examples.
      with_label: Whether the columns signature also has an input for the label, as in DLRover; it is not passed to the
        model.
    """

    def receiver_fn() -> tf.estimator.export.ServingInputReceiver:
        # The scope avoids name collisions: an op with a column's name would rename the model's variable of that name.
        with tf.name_scope(_SCOPE):
            examples = tf.compat.v1.placeholder(tf.string, [None], name=_EXAMPLES)
            parsed = parse_examples(examples, columns.features, columns.kinds, columns.value_delim, sparse_as_text=True)
            # The columns by name, which default to those of the examples.
            raw = {name: tf.compat.v1.placeholder_with_default(values, [None]) for name, values in parsed.items()}
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
