"""tf.data datasets from Python generators of record blocks, with the generator's own exceptions re-raised.

tf.data converts an exception of a Python generator to a `tf.errors.OpError` that has the traceback as text and loses
the type. `ReaderErrors` keeps the original exception and raises it instead of the op error.

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

from ... import run_context

T = TypeVar("T")
Nested: TypeAlias = "T | tuple[Nested[T], ...] | Mapping[str, Nested[T]]"  # a structure of tf.nest

MAX_COLUMNS = 1 << 16  # each becomes a tensor, and TensorFlow takes minutes for more
_BLOCKS_AHEAD = 2  # prefetched blocks besides the one in use: one being read and one ready


class ReaderErrors:
    """Creates datasets from Python generators, and re-raises the exceptions of these generators.

    Args:
      examine: Called after a `tf.errors.DataLossError` of tf.data's own readers; should raise an error that locates the
        damaged data, if it finds it.
    """

    def __init__(self, examine: Callable[[], None] | None = None) -> None:
        self._raised: Exception | None = None
        self._examine = examine

    def dataset(
        self,
        make_blocks: Callable[[], Iterator[object]],
        signature: Nested[tf.TypeSpec],
        convert: Callable[..., Nested[tf.Tensor]] | None = None,
    ) -> tf.data.Dataset:
        """Returns a dataset of single records, in order, with prefetching of blocks.

        Args:
          make_blocks: Called for each iteration over the dataset; returns an iterator over blocks of many records,
            because one step in Python costs as much as hundreds of records in TensorFlow.
          signature: Type specs of a block.
          convert: Converts a block in TensorFlow; None if blocks are not converted. The first dimension of each
            resulting tensor is the number of records.
        """
        return self.blocks(make_blocks, signature, convert).unbatch()

    def blocks(
        self,
        make_blocks: Callable[[], Iterator[object]],
        signature: Nested[tf.TypeSpec],
        convert: Callable[..., Nested[tf.Tensor]] | None = None,
    ) -> tf.data.Dataset:
        """Returns a dataset of whole blocks, with prefetching; the arguments are as in `dataset`."""
        blocks = tf.data.Dataset.from_generator(
            run_context.bound(lambda: self._watched(make_blocks)), output_signature=signature
        )
        if convert is not None:
            blocks = blocks.map(tf.autograph.experimental.do_not_convert(convert))
        return blocks.prefetch(_BLOCKS_AHEAD)

    @contextlib.contextmanager
    def reraised(self) -> Iterator[None]:
        """Raises the reader's own exception instead of the `tf.errors.OpError` that it caused in the block."""
        self._raised = None
        try:
            yield
        except tf.errors.OpError as error:
            self.reraise()
            if self._examine is not None and isinstance(error, tf.errors.DataLossError):
                self._examine()
            raise

    def reraise(self) -> None:
        """Raises the exception that the reader has raised, if any."""
        if self._raised is not None:
            raise self._raised from None

    def _watched(self, make_blocks: Callable[[], Iterator[object]]) -> Iterator[object]:
        try:
            yield from make_blocks()
        except Exception as error:
            self._raised = error
            raise
