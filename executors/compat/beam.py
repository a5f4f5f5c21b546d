"""Private names of Apache Beam."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

# Path of the in-process runner's class, in Beam 2.47 (TFX 1.15) to 2.77. Releases before 2.61 have no short name for
# it.
IN_PROCESS_RUNNER = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"

_BUCKETS = "_DEFAULT_NUM_BUCKETS"


@contextlib.contextmanager
def reshuffle_buckets(number: int) -> Iterator[None]:
    """Sets the number of random keys of `beam.Reshuffle` for the duration of a block; no-op if Beam has no such number.

    Beam 2.61 (TFX 1.21) to 2.77 have it; earlier releases had no default. The public argument `num_buckets` cannot be
    set for pipelines of other packages, such as TFX's.
    """
    import apache_beam as beam

    before = getattr(beam.Reshuffle, _BUCKETS, None)
    if before is None:
        yield
        return
    setattr(beam.Reshuffle, _BUCKETS, number)
    try:
        yield
    finally:
        setattr(beam.Reshuffle, _BUCKETS, before)
