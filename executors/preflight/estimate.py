"""Estimates duration and peak memory of a training from the steps of a trial."""

from __future__ import annotations

import math
import resource

from ..runtime.quantities import duration_text
from .verdicts import PASSED, SKIPPED, Verdict
from .watch import Watch


def verdict(watch: Watch, requested: int | None, is_shortened: bool, records: int, seconds: float) -> Verdict:
    """Returns the estimate for a whole run.

    Args:
      watch: Measurements of the trial.
      requested: Requested number of steps, or None.
      is_shortened: Whether the trial got a reduced number of steps, so that `watch.planned_steps` is too small.
      records: Estimated number of training examples; 0 if unknown.
      seconds: Duration of the trial.
    """
    peaks = _peak_memory()
    memory = f"{peaks['memory'] / 1e9:.2g} GB of memory"
    if "gpu_memory" in peaks:
        memory += f", {peaks['gpu_memory'] / 1e9:.2g} GB of GPU memory"
    steady, steps = watch.steady_seconds(), _steps(watch, requested, is_shortened, records)
    details: dict[str, object] = {**peaks, "seconds_per_step": steady, "steps": steps}
    if steady is None:
        return Verdict("estimate", SKIPPED, f"{memory}; too few steps to measure the time per step", details=details)
    measured = f"measured over {len(watch.step_seconds)} steps on this machine"
    if not steps:
        text = (
            f"{duration_text(steady)} per step, {memory}; {measured}. No number of steps was requested (--train-steps)."
        )
        return Verdict("estimate", PASSED, text, details=details)
    other_seconds = max(0.0, seconds - watch.first_seconds - sum(watch.step_seconds))
    total = other_seconds + watch.first_seconds + steady * (steps - 1)
    about = "" if requested or watch.planned_steps else "about "
    text = (
        f"training takes about {duration_text(total)} for {about}{steps:,} steps of {duration_text(steady)}, "
        f"{duration_text(max(0.0, total - steady * steps))} of it for startup and export, and {memory}; "
        f"{measured}, without evaluations and cached data"
    )
    return Verdict("estimate", PASSED, text, details={**details, "seconds": total})


def _steps(watch: Watch, requested: int | None, is_shortened: bool, records: int) -> int | None:
    """Returns the number of steps of a run: planned by the loop, requested, or computed from epochs and records."""
    planned = None if is_shortened else watch.planned_steps
    if planned or requested:
        return planned or requested
    if watch.epochs and records and watch.batch_size:
        return max(1, math.ceil(records / watch.batch_size)) * watch.epochs
    return None


def _peak_memory() -> dict[str, int]:
    """Returns peak bytes of this process: `memory`, and with GPUs `gpu_memory`, the maximum over all GPUs."""
    import tensorflow as tf

    peaks = {"memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
    for gpu in tf.config.list_physical_devices("GPU"):
        name = gpu.name.rpartition("physical_device:")[2]
        peaks["gpu_memory"] = max(peaks.get("gpu_memory", 0), tf.config.experimental.get_memory_info(name)["peak"])
    return peaks
