"""Names of TensorFlow 1 that code for TensorFlow 2 does not have: the advice for the exceptions that they cause."""

from __future__ import annotations

import pytest

from generic_trainer.executors.modules.tensorflow_1 import hint, hint_for_text

NAMES = {
    "tf.placeholder": "tf.compat.v1.placeholder",
    "tf.app.flags": "tf.compat.v1.app",
    "tf.train.AdamOptimizer": "tf.compat.v1.train.AdamOptimizer",
    "tf.losses.softmax_cross_entropy": "tf.compat.v1.losses.softmax_cross_entropy",
    "tf.metrics.accuracy": "tf.compat.v1.metrics.accuracy",
    "tf.nn.rnn_cell.LSTMCell": "tf.compat.v1.nn.rnn_cell",
    "tf.data.Dataset.range(1).make_one_shot_iterator()": "tf.compat.v1.data.make_one_shot_iterator(dataset)",
    "tf.data.Dataset.range(1).output_shapes": "tf.compat.v1.data.get_output_shapes(dataset)",
    "tf.contrib.layers": "the package tf-slim for tf.contrib.slim",
    "tf.compat.v1.contrib": "the package tf-slim for tf.contrib.slim",
    "__import__('tensorflow.contrib.slim')": "the package tf-slim for tf.contrib.slim",
    "__import__('tensorflow.gfile')": "tf.compat.v1.gfile",
    "exec('from tensorflow_transform.saved.saved_transform_io import partially_apply_saved_transform')": (
        "tft.TFTransformOutput(folder).transform_raw_features(features)"
    ),
    "__import__('tensorflow_transform').string_to_int": "tft.compute_and_apply_vocabulary(x)",
    "__import__('tensorflow_metadata.proto.v0.schema_pb2').proto.v0.schema_pb2.Schema().as_feature_spec()": (
        "schema_utils.schema_as_feature_spec(schema).feature_spec"
    ),
    "exec('from tensorflow_transform.tf_metadata import dataset_schema')": "schema_from_feature_spec(feature_spec)",
    "exec('from tensorflow.train import AdamOptimizer')": "tf.compat.v1.train.AdamOptimizer",
    "tf.get_embedding_variable": "nor tf.compat.v1 has tf.get_embedding_variable. If it is not misspelled",
    "tf.compat.v1.EmbeddingVariableOption": "nor tf.compat.v1 has tf.EmbeddingVariableOption. If",
    "tf.feature_column.categorical_column_with_embedding": "or of a fork such as DeepRec",
    "exec('from tensorflow.train import AdamAsyncOptimizer')": "nor tf.compat.v1 has tf.train.AdamAsyncOptimizer. If",
    "__import__('tensorflow.sparse_operation_kit')": "nor tf.compat.v1 has tf.sparse_operation_kit. If",
}


@pytest.mark.parametrize("code", NAMES)
def test_the_hint_names_what_replaces_it(code: str) -> None:
    import tensorflow as tf

    with pytest.raises((AttributeError, ImportError)) as caught:
        eval(code, {"tf": tf})  # noqa: S307
    assert NAMES[code] in hint(caught.value)


@pytest.mark.parametrize(
    "code", ["tf.data.Dataset.range(1).shapes", "tf.losses.mes", "__import__('tensorflow_metadata').nonsense"]
)
def test_other_missing_names_have_no_hint(code: str) -> None:
    import tensorflow as tf

    with pytest.raises(AttributeError) as caught:
        eval(code, {"tf": tf})  # noqa: S307
    assert hint(caught.value) == ""


def test_the_names_of_the_estimator_package_are_those_of_tensorflow() -> None:
    message = "module 'tensorflow_estimator.python.estimator.api._v2.estimator' has no attribute 'inputs'"
    assert hint_for_text(message).startswith(("tf.estimator.inputs is a name of TensorFlow 1.", ""))
