"""Private names of Apache Beam."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from .patching import replaced

# Path of the in-process runner's class, in Beam 2.47 (TFX 1.15) to 2.77. Releases before 2.61 have no short name for
# it.
IN_PROCESS_RUNNER = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"


def reshuffle_buckets(number: int) -> contextlib.AbstractContextManager[None]:
    """Sets the number of random keys of `beam.Reshuffle` for the duration of a block; no-op if Beam has no such number.

    Beam 2.61 (TFX 1.21) to 2.77 have it; earlier releases had no default. The public argument `num_buckets` cannot be
    set for pipelines of other packages, such as TFX's.
    """
    import apache_beam as beam

    return _value_set(beam.Reshuffle, "_DEFAULT_NUM_BUCKETS", number)


def no_state_cache() -> contextlib.AbstractContextManager[None]:
    """Turns off the in-process runner's cache of side inputs and state for the duration of a block.

    To bound the cache, Beam measures each value and all objects that it refers to, which takes 8 % of a Transform step.
    Within one process, reading a value again is as fast. Beam's option `--max_cache_memory_usage_mb` has no effect on
    the in-process runner.
    """
    from apache_beam.runners.portability.fn_api_runner import worker_handlers

    return _value_set(worker_handlers, "STATE_CACHE_SIZE_MB", 0)


@contextlib.contextmanager
def _value_set(owner: object, name: str, value: object) -> Iterator[None]:
    """Sets a class's or module's variable for the duration of a block; no-op if it has no such variable."""
    before = getattr(owner, name, None)
    if before is None:
        yield
        return
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextlib.contextmanager
def lookups_cached() -> Iterator[None]:
    """Looks up pipeline options and the state of each DoFn once instead of several times per transform, in the block.

    Beam parses its command-line options again for each view of them, and inspects the signatures of all methods of a
    DoFn each time it asks whether the DoFn has state or timers. The two take a third of the time in which Beam builds
    and starts a pipeline with hundreds of transforms, such as TensorFlow Transform's.
    """
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.transforms import userstate

    views: weakref.WeakKeyDictionary[Any, dict[type, Any]] = weakref.WeakKeyDictionary()
    states: weakref.WeakKeyDictionary[Any, object] = weakref.WeakKeyDictionary()

    def view_as(original: Callable[..., Any], options: Any, cls: type) -> Any:
        known = views.setdefault(options, {})
        if cls not in known or known[cls]._all_options is not options._all_options:
            known[cls] = original(options, cls)
        return known[cls]

    def get_dofn_specs(original: Callable[..., object], dofn: Any) -> object:
        try:
            if dofn not in states:
                states[dofn] = original(dofn)
            return states[dofn]
        except TypeError:  # it is not hashable
            return original(dofn)

    with replaced(PipelineOptions, "view_as", view_as), replaced(userstate, "get_dofn_specs", get_dofn_specs):
        yield
