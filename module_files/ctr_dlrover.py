"""Click-through rate prediction with a conf for DLRover's TensorFlow trainer that wraps a canned Estimator.

    cd module_files
    generic-trainer dlrover --conf=ctr_dlrover.TrainConf

DLRover's trainer requires a custom Estimator, constructed from a folder, a config and params. An adaptor gives a canned
Estimator that form: its model function builds the canned Estimator and calls its `model_fn`. The example wraps
TensorFlow's wide and deep classifier. For DeepCTR's DeepFM, replace that expression:

    from deepctr.estimator import DeepFMEstimator
    self.estimator = DeepFMEstimator(wide, deep, task="binary")

The rows have the format of Criteo's display advertising data: the label `I0` (1 for a click), the counts `I1` to `I13`,
and the categorical strings `C1` to `C26`. One in ten fields is empty, which is read as 0 or as no string. `C26` has up
to three strings separated by the byte 1; as its column is sparse, the model receives a SparseTensor [batch, strings].
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from dlrover.trainer.tensorflow.reader.base_reader import ElasticReader
from dlrover.trainer.tensorflow.util.column_info import Column

LABEL = "I0"
COUNTS = [f"I{number}" for number in range(1, 14)]
WORDS = [f"C{number}" for number in range(1, 27)]
MULTI_WORD_COLUMN = WORDS[-1]
WORD_SEPARATOR = "\x01"
VOCABULARY_SIZE = 30  # per column
MISSING_RATE = 0.1
CLICK_BIAS = -1.5  # gives a click rate of about a quarter

_generator = np.random.default_rng(0)
COUNT_WEIGHTS = _generator.normal(0, 0.4, len(COUNTS))
WORD_WEIGHTS = _generator.normal(0, 0.4, [len(WORDS), VOCABULARY_SIZE])

BUCKETS = 1000  # hash buckets per column
DEFAULTS = {"learning_rate": 0.2, "embedding_width": 4, "hidden_units": [64, 32]}


class AdReader(ElasticReader):
    """Generates rows whose click probability is a logistic function of the counts' logarithms and the words."""

    def __init__(self, path: str, rows: int, seed: int) -> None:
        """Constructs the reader.

        Args:
            path: Name of the rows, which distinguishes them from those of other readers.
            rows: Number of rows.
            seed: Seed of the rows' random numbers; the distribution is the same for all seeds.
        """
        self.rows = rows
        self.seed = seed
        super().__init__(path=path)

    def count_data(self) -> None:
        """Sets the number of rows; called before the first read."""
        self._data_nums = self.rows

    def read_data_by_index_range(self, start_index: int, end_index: int) -> list[str]:
        """Returns the rows from `start_index` to `end_index`, exclusive."""
        return [make_row(np.random.default_rng([self.seed, index])) for index in range(start_index, end_index)]


def make_row(random: np.random.Generator) -> str:
    """Returns a random row: label, counts and words, separated by commas."""
    log_counts = random.normal(size=len(COUNTS))
    word_ids = random.integers(VOCABULARY_SIZE, size=len(WORDS) - 1 + random.integers(1, 4))
    columns = np.minimum(np.arange(len(word_ids)), len(WORDS) - 1)  # surplus words go into the last column
    logit = CLICK_BIAS + log_counts @ COUNT_WEIGHTS + WORD_WEIGHTS[columns, word_ids].sum()

    words = [f"{column + 1:02x}{word:06x}" for column, word in zip(columns, word_ids, strict=True)]
    words[len(WORDS) - 1 :] = [WORD_SEPARATOR.join(words[len(WORDS) - 1 :])]
    fields = [f"{count:.0f}" for count in np.exp(2 + log_counts)] + words
    is_present = random.random(len(fields)) >= MISSING_RATE
    clicked = random.logistic() < logit
    return ",".join(
        [f"{clicked:d}", *(field if present else "" for field, present in zip(fields, is_present, strict=True))]
    )


def make_columns(embedding_width: int) -> tuple[list[Any], list[Any]]:
    """Makes the feature columns of the wide (linear) part and of the deep part."""
    counts = [tf.feature_column.numeric_column(name, normalizer_fn=tf.math.log1p) for name in COUNTS]
    words = [tf.feature_column.categorical_column_with_hash_bucket(name, BUCKETS) for name in WORDS]
    # Small initial values, because DeepFM multiplies embeddings with each other.
    initializer = tf.compat.v1.truncated_normal_initializer(stddev=0.02)
    embedded = [
        tf.feature_column.embedding_column(column, embedding_width, initializer=initializer) for column in words
    ]
    return [*counts, *words], [*counts, *embedded]


class WideAndDeepAdaptor(tf.estimator.Estimator):
    """A wide and deep classifier in the form of a custom Estimator."""

    def __init__(
        self, model_dir: str, config: tf.estimator.RunConfig | None = None, params: dict[str, Any] | None = None
    ) -> None:
        """Constructs the adaptor; the trainer passes all three arguments by position.

        Args:
            model_dir: Folder for checkpoints and exports.
            config: The RunConfig.
            params: The conf's `params`: `learning_rate`, `embedding_width` and `hidden_units`.
        """
        self.run_config = config
        super().__init__(self.model_fn, model_dir=model_dir, config=config, params=params)

    def model_fn(
        self, features: dict[str, Any], labels: tf.Tensor | None, mode: str, params: dict[str, Any]
    ) -> tf.estimator.EstimatorSpec:
        """Builds the canned Estimator's graph for a mode.

        Args:
            features: A tensor [batch] for each column except the label; a SparseTensor for sparse columns.
            labels: [batch]; None in PREDICT mode.
            mode: A key of `tf.estimator.ModeKeys`.
            params: `learning_rate`, `embedding_width` and `hidden_units`.
        """
        wide, deep = make_columns(params["embedding_width"])
        self.estimator = tf.estimator.DNNLinearCombinedClassifier(
            linear_feature_columns=wide,
            linear_optimizer=lambda: tf.keras.optimizers.legacy.Ftrl(params["learning_rate"]),
            dnn_feature_columns=deep,
            dnn_optimizer=lambda: tf.keras.optimizers.legacy.Adagrad(params["learning_rate"]),
            dnn_hidden_units=params["hidden_units"],
        )
        if labels is not None:
            labels = tf.reshape(labels, [-1, 1])
        return self.estimator.model_fn(features, labels, mode, self.run_config)


COLUMNS = (
    Column.create(name=LABEL, dtype="int32", is_label=True),
    *(Column.create(name=name, dtype="float32", is_label=False) for name in COUNTS),
    *(Column.create(name=name, dtype="string", is_label=False, is_sparse=name == MULTI_WORD_COLUMN) for name in WORDS),
)


class TrainConf:
    """The conf: Estimator, datasets and training options."""

    classifier_class = WideAndDeepAdaptor
    params = DEFAULTS
    model_dir = "ctr_model"

    max_steps = 600
    log_steps = 100
    save_steps = 200  # steps between checkpoints, each followed by an evaluation
    eval_steps = 20

    train_set = {  # noqa: RUF012 (a conf's attributes are plain ones)
        "reader": AdReader("train", rows=20_000, seed=1),
        "columns": COLUMNS,
        "batch_size": 128,
        "epoch": 4,
    }
    eval_set = {"reader": AdReader("eval", rows=2560, seed=2), "columns": COLUMNS, "batch_size": 128}  # noqa: RUF012
