"""The base class of row sources: rows of a data set in a fixed order, with a position for resuming.

As in DLRover, rows are not shuffled.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import tensorflow.compat.v1 as tf
from absl import logging

from ...inputs.bad_records import policy
from ...inputs.csv.row_checks import check_rows, describe_problem
from ...inputs.readers.reader_errors import ReaderErrors
from ...inputs.tfrecord.scan import ParseTrial, refused
from .columns import Columns, FeaturesAndLabel
from .examples import READER

if TYPE_CHECKING:
    from ...estimator.shared_ledger import Part

Feed: TypeAlias = "dict[tf.Tensor, Callable[[], int]]"  # functions that are called when an iterator is initialized

MAX_EXAMINED_ROWS = 1_000_000


class Source:
    """Rows of a data set in a fixed order, and the position up to which they have been trained on.

    Attributes:
      columns: The columns of the rows.
      takes_examples: Whether rows are serialized tf.Examples, and not delimited text.

    Args:
      columns: The columns of the rows.
      name: Name of the data, which a position must have.
      where: The conf and the data set, for messages.
    """

    takes_examples = False

    def __init__(self, columns: Columns, name: str, where: str) -> None:
        self.columns = columns
        self._name = name
        self._where = where
        self._bad: set[int] = set()  # numbers of skipped rows, counted over all epochs unless rows have an index

    def batches(self, size: int, errors: ReaderErrors) -> tuple[tf.data.Dataset, Feed]:
        """Returns a dataset of batches for `decode`, and the feeds for initializing its iterator.

        Args:
          size: Rows per batch.
          errors: Collects the exceptions of the reader.
        """
        raise NotImplementedError

    def decode(self, *rows: tf.Tensor) -> FeaturesAndLabel:
        """Returns the features and labels of a batch.

        Args:
          *rows: An element of the dataset from `batches`: one tensor or several.
        """
        return self.columns.parse(*rows) if self.takes_examples else self.columns.decode(*rows)

    def examine(self) -> None:
        """Raises an error for the first invalid row from the position on, if one is found."""

    def restart(self, position: str | None) -> None:
        """Moves to a position that `position` returned; to the first row if it is None."""
        raise NotImplementedError

    def share(self, part: Part) -> None:
        """Shares the rows from the position on among the workers of a cluster."""
        raise NotImplementedError

    def trained(self, count: int) -> None:
        """Advances the position by `count` rows, which have been trained on."""
        raise NotImplementedError

    def position(self) -> str:
        """Returns the position up to which rows have been trained on, as JSON."""
        raise NotImplementedError

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
          blocks: The number of the first row of each block, and the block.
          place: Returns the place of a row by its number.
        """
        columns, examined = self.columns, 0
        for first, block in blocks:
            check_rows(list(block), columns.row_fields, columns.field_delim, columns.value_delim, first, place)
            examined += len(block)
            if examined >= MAX_EXAMINED_ROWS:
                return

    @functools.cached_property
    def _trial(self) -> ParseTrial:
        return ParseTrial(self.columns.parse if self.takes_examples else self.columns.decode)
