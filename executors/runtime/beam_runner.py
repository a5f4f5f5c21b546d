"""Selects the Beam runner for pipelines on this machine: the in-process one.

Beam's default, the DirectRunner, first tries the Prism runner, for which it downloads a binary from GitHub and starts
it. Offline it falls back to the in-process runner, which older releases without Prism use anyway.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ..compat.beam import IN_PROCESS_RUNNER

IN_PROCESS = f"--runner={IN_PROCESS_RUNNER}"  # pass it first: Beam uses the last --runner argument


@contextlib.contextmanager
def in_process_by_default() -> Iterator[None]:
    """Makes the in-process runner the default in the block, for pipelines without `--runner`, such as TFX's."""
    from apache_beam.options.pipeline_options import StandardOptions

    before = StandardOptions.DEFAULT_RUNNER
    StandardOptions.DEFAULT_RUNNER = IN_PROCESS_RUNNER
    try:
        yield
    finally:
        StandardOptions.DEFAULT_RUNNER = before
