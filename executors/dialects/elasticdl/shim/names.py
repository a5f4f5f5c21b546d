"""Maps ElasticDL's module names to shim modules.

It covers the names that public model files import, for all ElasticDL releases; not ElasticDL's internals (master,
worker, parameter servers).
"""

from __future__ import annotations

from ....modules.import_shims import publish_shims

_CALLBACKS = "elasticdl.python.elasticdl.callbacks"
_LAYERS = "elasticdl_preprocessing.layers"

# (ElasticDL module, shim module in this package). Names with submodules become packages.
_MODULES = (
    ("elasticdl.python.common.constants", "constants"),
    ("elasticdl.python.elasticdl.common.constants", "constants"),
    ("elasticdl_client.common.constants", "constants"),
    ("elasticdl.python.common.log_utils", "log_utils"),
    ("elasticdl.python.common.log_util", "log_utils"),
    ("elasticai_api.util.log_utils", "log_utils"),
    ("elasticdl_client.common.log_utils", "log_utils"),
    (_CALLBACKS, "callbacks"),
    (f"{_CALLBACKS}.learning_rate_scheduler", "callbacks"),
    (f"{_CALLBACKS}.max_steps_stopping", "callbacks"),
    (f"{_CALLBACKS}.saved_model_exporter", "callbacks"),
    ("elasticdl.callbacks", "callbacks"),
    ("elasticdl.python.worker.prediction_outputs_processor", "prediction_outputs_processor"),
    ("elasticdl.python.data.reader.data_reader", "data_reader"),
    ("elasticdl.python.data.data_reader", "data_reader"),
    ("elasticdl.python.data.data_reader", "shards"),
    ("elasticdl.python.data.data_reader", "odps_io"),
    ("elasticdl.python.common.data_reader", "data_reader"),
    ("elasticdl.python.common.data_reader", "shards"),
    ("elasticdl.python.common.data_reader", "odps_io"),
    ("elasticdl.python.data.reader.csv_reader", "shards"),
    ("elasticdl.python.data.csv_reader", "shards"),
    ("elasticdl.python.data.reader.text_reader", "shards"),
    ("elasticdl.python.data.reader.recordio_reader", "shards"),
    ("elasticdl.python.data.reader.odps_reader", "odps_io"),
    ("elasticdl.python.data.odps_reader", "odps_io"),
    ("elasticdl.python.data.odps_io", "odps_io"),
    ("elasticdl.python.common.odps_io", "odps_io"),
    ("elasticdl.python.common.odps_reader", "odps_io"),
    ("elasticdl.layers", "embedding"),
    ("elasticdl.layers.embedding", "embedding"),
    ("elasticdl.python.elasticdl.layers", "embedding"),
    ("elasticdl.python.elasticdl.layers.embedding", "embedding"),
    ("elasticdl.feature_column", "feature_columns"),
    ("elasticdl.python.elasticdl.feature_column", "feature_columns"),
    ("elasticdl.python.elasticdl.feature_column.feature_column", "feature_columns"),
    (_LAYERS, "number_layers"),
    (_LAYERS, "category_layers"),
    (_LAYERS, "conversion_layers"),
    (_LAYERS, "sparse_embedding"),
    (f"{_LAYERS}.normalizer", "number_layers"),
    (f"{_LAYERS}.discretization", "number_layers"),
    (f"{_LAYERS}.round_identity", "number_layers"),
    (f"{_LAYERS}.log_round", "number_layers"),
    (f"{_LAYERS}.hashing", "category_layers"),
    (f"{_LAYERS}.index_lookup", "category_layers"),
    (f"{_LAYERS}.concatenate_with_offset", "category_layers"),
    (f"{_LAYERS}.to_number", "conversion_layers"),
    (f"{_LAYERS}.to_ragged", "conversion_layers"),
    (f"{_LAYERS}.to_sparse", "conversion_layers"),
    (f"{_LAYERS}.sparse_embedding", "sparse_embedding"),
    ("elasticdl_preprocessing.feature_column", "feature_columns"),
    ("elasticdl_preprocessing.feature_column.feature_column", "feature_columns"),
    ("elasticdl_preprocessing.constants", "analyzer_utils"),
    ("elasticdl_preprocessing.utils.analyzer_utils", "analyzer_utils"),
    ("elasticdl_preprocessing.utils.analyzer_util", "analyzer_utils"),
    ("elasticdl_preprocessing.utils.decorators", "model_inputs"),
    ("recordio", "recordio"),
)


def provide_elasticdl() -> None:
    """Makes ElasticDL's module names importable in this process. Installed packages take precedence over the shims.

    The layers and callbacks subclass classes of `tf.keras`, so this fixes the Keras version of the process.
    """
    publish_shims(_MODULES, beside=__name__)
