"""Which Beam runner executes pipelines on this machine: the in-process one.

Beam's default, the DirectRunner, tries the Prism runner first, for which it downloads a program from GitHub and starts
it. Offline it falls back to the runner that is named here, which older releases without Prism use anyway.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ..compat.beam import IN_PROCESS_RUNNER

IN_PROCESS = f"--runner={IN_PROCESS_RUNNER}"  # goes first: of several --runner arguments Beam takes the last one


@contextlib.contextmanager
def in_process_by_default() -> Iterator[None]:
    """Makes pipelines without a `--runner` argument, such as that of TFX's BeamDagRunner, run in this process."""
    from apache_beam.options.pipeline_options import StandardOptions

    before = StandardOptions.DEFAULT_RUNNER
    StandardOptions.DEFAULT_RUNNER = IN_PROCESS_RUNNER
    try:
        yield
    finally:
        StandardOptions.DEFAULT_RUNNER = before
