"""Private names of TensorFlow Data Validation 1.15 to 1.21."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from tensorflow_metadata.proto.v0 import statistics_pb2


def import_tfdv() -> ModuleType:
    """Imports TFDV after `import tfx`, which patches it so that TFDV 1.16 can be imported with tfx_bsl 1.21."""
    import tfx  # noqa: F401, I001
    import tensorflow_data_validation as tfdv

    module: ModuleType = tfdv
    return module


def statistics_of(batch: pa.RecordBatch, **options: object) -> statistics_pb2.DatasetFeatureStatisticsList:
    """Returns the statistics of an Arrow RecordBatch, computed in this process.

    The public functions start a Beam pipeline, or take a pandas DataFrame, which cannot represent lists of integers
    with missing values.

    Args:
      batch: Examples; each column is an array of lists.
      **options: Arguments of `tfdv.StatsOptions`.
    """
    tfdv = import_tfdv()
    from tensorflow_data_validation.statistics import stats_impl

    return stats_impl.generate_statistics_in_memory(batch, tfdv.StatsOptions(**options))
