"""`FakeReader`: synthetic rows for paths "fake://…"."""

from __future__ import annotations

import numpy as np

from .base_reader import ElasticReader
from .constants import TFConstants
from .reader_util import reader_registery

_ROWS = 10000


class FakeReader(ElasticReader):
    """10,000 random rows "x,y": x is an integer from 1 to 999, and y is 2x plus an integer from 1 to 4.

    Rows are drawn from NumPy's global random generator when they are read, so reading a row again gives other values.
    """

    def __init__(
        self, path: object = None, num_epochs: int = 1, batch_size: int = 64, enable_dynamic_sharding: bool = True
    ) -> None:
        """Accepts the arguments of DLRover's fake readers.

        Args:
          path: Ignored.
          num_epochs: See ElasticReader.
          batch_size: See ElasticReader.
          enable_dynamic_sharding: See ElasticReader.
        """
        super().__init__(path, num_epochs, batch_size, enable_dynamic_sharding)

    def count_data(self) -> None:
        """Sets `_data_nums` to 10,000."""
        self._data_nums = _ROWS

    def read_data_by_index_range(self, start_index: int, end_index: int) -> list[str]:
        """Returns new random rows, as many as are in the range."""
        # The same random sequence as in DLRover's calls of randint: for each row x, then the added number.
        drawn = np.random.randint([1, 1], [1000, 5], size=(end_index - start_index, 2))
        return [f"{x},{2 * x + more}" for x, more in drawn.tolist()]


reader_registery.register_reader(TFConstants.FAKE_SCHEME.name, FakeReader)
