"""The option of the profiler."""

from __future__ import annotations

from ...option import TRAINING, option


class ProfilingOptions:
    """Whether to profile."""

    profile: bool = option(
        False, "Profile a few seconds of training and report the time breakdown of a step.", group=TRAINING, order=80
    )
