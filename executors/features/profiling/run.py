"""Records what the profiler of the training process has found."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from ...option import TRAINING, option
from ...training.callbacks import RunCallback

if TYPE_CHECKING:
    from ...training.run_state import Run


class ProfilingOptions:
    """Whether to profile."""

    profile: bool = option(
        False, "Profile a few seconds of training and report the time breakdown of a step.", group=TRAINING, order=80
    )


class Profile(RunCallback):
    """Records the summary of the profile, see `summary.Shares.to_json`, and its folder."""

    parts: ClassVar[Mapping[str, object]] = {"profile": {}}

    def merge(self, part: Any, run: Run) -> None:
        """Records the summary."""
        run.record.parts["profile"] = part

    @contextlib.contextmanager
    def published(self, run: Run) -> Iterator[None]:
        """Records where the profile is after the run, which moves the logs of an Estimator."""
        profile = run.record.parts["profile"]
        if folder := profile.get("folder"):
            profile["folder"] = folder.replace(run.folders.model_run_dir, run.fn_args.model_run_dir, 1)
        yield
