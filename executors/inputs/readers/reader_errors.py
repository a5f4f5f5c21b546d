"""Blocks of records out of Python as `tf.data`, and the errors of what makes them as they were raised.

tf.data turns an exception of a Python generator into an op's error, with the traceback as text and the type gone.
`ReaderErrors` remembers the exception while the dataset runs and raises it in the op error's place.

Usage:

    errors = ReaderErrors()
    dataset = errors.dataset(lambda: iter([np.array([b"one", b"two"], object)]), tf.TensorSpec([None], tf.string))
    with errors.reraised():
        model.fit(dataset)      # raises what the generator raised
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias, TypeVar

import tensorflow as tf

T = TypeVar("T")
Nested: TypeAlias = "T | tuple[Nested[T], ...] | Mapping[str, Nested[T]]"  # a structure of tf.nest

_BLOCKS_AHEAD = 2  # one that is being read while another is being used, and one between


class ReaderErrors:
    """What went wrong in the Python code of a reader, or in the files that tf.data itself reads.

    Args:
      examine: Called when tf.data has met damaged data; raises what is wrong with it, if it finds out.
    """

    def __init__(self, examine: Callable[[], None] | None = None) -> None:
        self._raised: Exception | None = None
        self._examine = examine

    def dataset(self, make_blocks: Callable[[], Iterator[object]], signature: Nested[tf.TypeSpec]) -> tf.data.Dataset:
        """Returns the records of the blocks, one by one and in their order; a thread reads ahead of them.

        Args:
          make_blocks: Called at each run through the dataset; its iterator gives many records at a time, since each
            step in Python costs as much as hundreds of records in TensorFlow.
          signature: Type specs of a block, the first dimension of which is that of the records.
        """
        return self.blocks(make_blocks, signature).unbatch()

    def blocks(self, make_blocks: Callable[[], Iterator[object]], signature: Nested[tf.TypeSpec]) -> tf.data.Dataset:
        """Returns the blocks as they are; the arguments are those of `dataset`."""
        blocks = tf.data.Dataset.from_generator(lambda: self._watched(make_blocks), output_signature=signature)
        return blocks.prefetch(_BLOCKS_AHEAD)

    @contextlib.contextmanager
    def reraised(self) -> Iterator[None]:
        """Raises the reader's own exception where tf.data raises an error because of it."""
        self._raised = None
        try:
            yield
        except tf.errors.OpError as error:
            self.reraise()
            if self._examine is not None and isinstance(error, tf.errors.DataLossError):
                self._examine()
            raise

    def reraise(self) -> None:
        """Raises what the reader has raised, if it has."""
        if self._raised is not None:
            raise self._raised from None

    def _watched(self, make_blocks: Callable[[], Iterator[object]]) -> Iterator[object]:
        try:
            yield from make_blocks()
        except Exception as error:
            self._raised = error
            raise
