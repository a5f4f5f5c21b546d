"""`FakeReader`: the made-up rows of "fake://…"."""

from __future__ import annotations

import numpy as np

from .base_reader import ElasticReader
from .constants import TFConstants
from .reader_util import reader_registery

_ROWS = 10000


class FakeReader(ElasticReader):
    """10,000 rows "x,y": x is drawn from 1 to 999, and y is 2 x and 1 to 4 more.

    They are drawn when they are read, from NumPy's global generator, so that reading a row again gives another one.
    """

    def __init__(
        self, path: object = None, num_epochs: int = 1, batch_size: int = 64, enable_dynamic_sharding: bool = True
    ) -> None:
        """Takes what DLRover's fake readers take.

        Args:
          path: Makes no difference.
          num_epochs: See ElasticReader.
          batch_size: See ElasticReader.
          enable_dynamic_sharding: See ElasticReader.
        """
        super().__init__(path, num_epochs, batch_size, enable_dynamic_sharding)

    def count_data(self) -> None:
        """Sets `_data_nums`."""
        self._data_nums = _ROWS

    def read_data_by_index_range(self, start_index: int, end_index: int) -> list[str]:
        """Returns so many new rows."""
        # The numbers that DLRover's calls of randint give: first x, then what is added, row after row.
        drawn = np.random.randint([1, 1], [1000, 5], size=(end_index - start_index, 2))
        return [f"{x},{2 * x + more}" for x, more in drawn.tolist()]


reader_registery.register_reader(TFConstants.FAKE_SCHEME.name, FakeReader)
