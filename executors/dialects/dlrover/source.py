"""The base class of row sources: a conf's data set as input of an Estimator, with a position for resuming.

Rows are in a fixed order: as in DLRover, they are not shuffled.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import tensorflow.compat.v1 as tf
from absl import logging

from ...inputs.bad_records import policy
from ...inputs.readers.reader_errors import ReaderErrors
from ...inputs.tfrecord.refused_records import first_refused
from ...inputs.tfrecord.scan import ParseTrial, refused
from .columns import Columns, FeaturesAndLabel
from .conf import DataSet
from .examples import READER, Kinds
from .text.row_checks import check_rows, describe_problem

Function = TypeVar("Function", bound=Callable[..., object])
Feed: TypeAlias = "dict[tf.Tensor, Callable[[], int]]"  # functions that are called when an iterator is initialized

_MAX_EXAMINED_ROWS = 1_000_000
_SCOPE = "conf_input"
_BATCHES_AHEAD = 4


class Source(abc.ABC):
    """Rows of a data set in a fixed order, and the position up to which they have been trained on.

    Attributes:
      columns: The columns of the rows.
      records: The number of rows in a step's batch, a tensor in the graph of `training_input`.
      takes_examples: Whether rows are serialized tf.Examples, and not delimited text.

    Args:
      data: The data set.
      columns: The columns of the rows.
      name: Name of the data, which a position must have.
      where: The conf and the data set, for messages.
    """

    records: tf.Tensor
    takes_examples = False

    def __init__(self, data: DataSet, columns: Columns, name: str, where: str) -> None:
        self.columns = columns
        self._data = data
        self._name = name
        self._where = where
        self._bad: set[int] = set()  # numbers of skipped rows, counted over all epochs unless rows have an index
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
        self.restart(None)
        dataset, _ = self._dataset()
        return dataset.map(_without_autograph(lambda features, labels, _: (features, labels)))

    def begin(self, session: tf.Session, position: str | None) -> None:
        """Starts reading in a session of the graph that `training_input` was called in.

        Args:
          session: The session, in which the iterator is initialized.
          position: A position returned by `position`; None for the first row.
        """
        self._start_training(position)
        session.run(self._initializer, {tensor: value() for tensor, value in self._feeds.items()})

    def explain(self) -> None:
        """Re-raises the reader's exception, or raises an error for the first invalid row, if one is found."""
        self._errors.reraise()
        self.examine()
        files = self.columns.kinds.files if isinstance(self.columns.kinds, Kinds) else ()
        error = first_refused(files, self._trial) if files else None
        if error is not None:
            raise error

    @abc.abstractmethod
    def batches(self, size: int, errors: ReaderErrors) -> tuple[tf.data.Dataset, Feed]:
        """Returns a dataset of batches for `decode`, and the feeds for initializing its iterator.

        Args:
          size: Rows per batch.
          errors: Collects the exceptions of the reader.
        """

    def decode(self, *rows: tf.Tensor) -> FeaturesAndLabel:
        """Returns the features and labels of a batch.

        Args:
          *rows: An element of the dataset from `batches`: one tensor or several.
        """
        return self.columns.parse(*rows) if self.takes_examples else self.columns.decode(*rows)

    @abc.abstractmethod
    def examine(self) -> None:
        """Raises an error for the first invalid row from the position on, if one is found."""

    @abc.abstractmethod
    def restart(self, position: str | None) -> None:
        """Moves to a position that `position` returned; to the first row if it is None."""

    @abc.abstractmethod
    def trained(self, count: int) -> None:
        """Advances the position by `count` rows, which have been trained on."""

    @abc.abstractmethod
    def position(self) -> str:
        """Returns the position up to which rows have been trained on, as JSON."""

    def warn_of_different_data(self) -> None:
        """Warns that a position cannot be restored."""
        logging.warning(
            "%s: the position in the checkpoint belongs to different data; reading starts at the first row.",
            self._where,
        )

    def good_rows(self, rows: Any, numbers: Sequence[int], place: Callable[[int], tuple[str, str]]) -> np.ndarray:
        """Returns the rows that can be decoded, and skips the others.

        Args:
          rows: An array or a list of them.
          numbers: Their numbers.
          place: Returns the file and the place of a row by its number.
        """
        bad = policy(READER)
        trial = list(refused(rows, self._trial))
        for index, problem in trial:
            if not self.takes_examples:
                columns = self.columns
                wrong = describe_problem(rows[index], columns.row_fields, columns.field_delim, columns.value_delim)
                problem = wrong or problem
            if bad is not None:
                bad.skip(*place(numbers[index]), problem)
            self._bad.add(numbers[index])
        return np.delete(rows, [index for index, _ in trial])

    def check_rows(self, blocks: Iterable[tuple[int, np.ndarray]], place: Callable[[int], str]) -> None:
        """Raises an error for the first row that cannot be decoded, of 1,000,000 rows at most.

        Args:
          blocks: The number of the first row of each block, and the block. To read a tf.Example is to check it: its
            checksum is verified.
          place: Returns the place of a row by its number.
        """
        columns, examined = self.columns, 0
        for first, block in blocks:
            if not self.takes_examples:
                fields, delim, value_delim = columns.row_fields, columns.field_delim, columns.value_delim
                check_rows(list(block), fields, delim, value_delim, first, place, self._trial)
            examined += len(block)
            if examined >= _MAX_EXAMINED_ROWS:
                return

    def _start_training(self, position: str | None) -> None:
        """Moves to a position; a source whose rows several workers share joins them."""
        self.restart(position)

    def _dataset(self) -> tuple[tf.data.Dataset, Feed]:
        with tf.name_scope(_SCOPE):  # avoids name collisions with the model
            rows, feeds = self.batches(self._data.batch_size, self._errors)
            parsed = rows.map(_without_autograph(self._decoded), tf.data.AUTOTUNE)
            return parsed.prefetch(_BATCHES_AHEAD), feeds

    def _decoded(self, *rows: tf.Tensor) -> tuple[dict[str, tf.Tensor | tf.SparseTensor], tf.Tensor, tf.Tensor]:
        return (*self.decode(*rows), tf.shape(rows[0])[0])

    @functools.cached_property
    def _trial(self) -> ParseTrial:
        return ParseTrial(self.columns.parse if self.takes_examples else self.columns.decode)


def _without_autograph(function: Function) -> Function:
    """Excludes a function from AutoGraph, which takes half a second although there is nothing to convert."""
    plain: Function = tf.autograph.experimental.do_not_convert(function)
    return plain
