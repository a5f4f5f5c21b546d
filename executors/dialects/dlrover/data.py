"""Batches of the rows of a conf's data set, as input for an Estimator."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import tensorflow.compat.v1 as tf

from ...inputs.readers.reader_errors import ReaderErrors
from ...inputs.tfrecord.refused_records import first_refused
from ...inputs.tfrecord.scan import ParseTrial
from .columns import FeaturesAndLabel
from .conf import DataSet
from .examples import Kinds
from .source import Feed, Source

Function = TypeVar("Function", bound=Callable[..., object])

_SCOPE = "conf_input"
_BATCHES_AHEAD = 4


class Batches:
    """The input of an Estimator from a data set, with its position for checkpoints.

    Args:
      data: The data set.
      source: The source of its rows.

    Attributes:
      columns: The columns of the source.
      records: The number of rows in a step's batch, a tensor in the graph of `training_input`.
      takes_examples: Whether rows are serialized tf.Examples.
    """

    records: tf.Tensor

    def __init__(self, data: DataSet, source: Source) -> None:
        self.columns = source.columns
        self.takes_examples = source.takes_examples
        self._batch_size = data.batch_size
        self._source = source
        self._errors = ReaderErrors()

    def training_input(self) -> FeaturesAndLabel:
        """Builds the training input: features and labels. `begin` must be called in the session before it is read."""
        dataset, self._feeds = self._dataset()
        iterator = tf.data.make_initializable_iterator(dataset)
        features, labels, self.records = iterator.get_next()
        self._initializer = iterator.initializer
        return features, labels

    def evaluation_input(self) -> tf.data.Dataset:
        """Returns the dataset for an evaluation, which starts at the first row."""
        self._source.restart(None)
        dataset, _ = self._dataset()
        return dataset.map(_without_autograph(lambda features, labels, _: (features, labels)))

    def begin(self, session: tf.Session, position: str | None) -> None:
        """Starts reading in a session of the graph that `training_input` was called in.

        Args:
          session: The session, in which the iterator is initialized.
          position: A position returned by `position`; None for the first row.
        """
        self._source.begin(position)
        session.run(self._initializer, {tensor: value() for tensor, value in self._feeds.items()})

    def trained(self, count: int) -> None:
        """Advances the position by `count` rows, which have been trained on."""
        self._source.trained(count)

    def position(self) -> str:
        """Returns the position up to which rows have been trained on."""
        return self._source.position()

    def explain(self) -> None:
        """Re-raises the reader's exception, or raises an error for the first invalid row, if one is found."""
        self._errors.reraise()
        self._source.examine()
        files = self.columns.kinds.files if isinstance(self.columns.kinds, Kinds) else ()
        error = first_refused(files, ParseTrial(self.columns.parse)) if files else None
        if error is not None:
            raise error

    def _decoded(self, *rows: tf.Tensor) -> tuple[dict[str, tf.Tensor | tf.SparseTensor], tf.Tensor, tf.Tensor]:
        return (*self._source.decode(*rows), tf.shape(rows[0])[0])

    def _dataset(self) -> tuple[tf.data.Dataset, Feed]:
        with tf.name_scope(_SCOPE):  # avoids name collisions with the model
            rows, feeds = self._source.batches(self._batch_size, self._errors)
            parsed = rows.map(_without_autograph(self._decoded), tf.data.AUTOTUNE)
            return parsed.prefetch(_BATCHES_AHEAD), feeds


def _without_autograph(function: Function) -> Function:
    """Excludes a function from AutoGraph, which takes half a second although there is nothing to convert."""
    plain: Function = tf.autograph.experimental.do_not_convert(function)
    return plain
