"""Private names of Apache Beam."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

# The runner within the process, by its path: Beam's releases from 2.47 (TFX 1.15) to 2.77 have it there, and those
# before 2.61 know no short name for it.
IN_PROCESS_RUNNER = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"

_BUCKETS = "_DEFAULT_NUM_BUCKETS"


@contextlib.contextmanager
def reshuffle_buckets(number: int) -> Iterator[None]:
    """Makes `beam.Reshuffle` choose among more random keys in a block. Changes nothing where Beam has no such number.

    Beam 2.61 (TFX 1.21) to 2.77 have it; before that there was no default. The public argument `num_buckets` is of
    no use to pipelines that others write, such as TFX's.
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
