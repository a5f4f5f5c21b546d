"""Private names of Apache Beam."""

from __future__ import annotations

import contextlib
import io
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

from .patching import replaced

if TYPE_CHECKING:
    import apache_beam as beam

CountBytes = Callable[[int], None]

# Path of the in-process runner's class, in Beam 2.47 (TFX 1.15) to 2.77. Releases before 2.61 have no short name for
# it. Beam's default, the DirectRunner, first tries the Prism runner, for which it downloads a binary from GitHub.
IN_PROCESS_RUNNER = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"
IN_PROCESS = f"--runner={IN_PROCESS_RUNNER}"  # pass it first: Beam uses the last --runner argument

_READ_BYTES = 1 << 18  # of a file at a time: the resolution of the progress


def in_process_by_default() -> contextlib.AbstractContextManager[None]:
    """Makes the in-process runner the default in a block, for pipelines without `--runner`, such as TFX's."""
    from apache_beam.options.pipeline_options import StandardOptions

    return _value_set(StandardOptions, "DEFAULT_RUNNER", IN_PROCESS_RUNNER)


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


@contextlib.contextmanager
def without_reshuffle() -> Iterator[None]:
    """Makes `beam.Reshuffle` the identity in the block, for pipelines with one worker in this process.

    A Reshuffle distributes elements among workers. With a single worker it does nothing but encode, group and decode
    all of them, and hold them in memory meanwhile. TFX's ExampleGen writes its splits through one.
    """
    import apache_beam as beam

    with replaced(beam.Reshuffle, "expand", lambda original, reshuffle, elements: elements):
        yield


@contextlib.contextmanager
def reads_counted(watch: Callable[[int], contextlib.AbstractContextManager[CountBytes]]) -> Iterator[None]:
    """Counts the bytes that pipelines read from files, in the block and with the in-process runner.

    The runner reports no progress, and TFX's executors accept neither another runner nor other sources, but the runner
    fuses a source with the transforms behind it: a file is read as fast as its examples are processed.

    Args:
      watch: Called for each pipeline that reads files, with the number of bytes that it is going to read: the size of
        each source's files, and `input_bytes` of each transform with this attribute. The context manager is active
        while the pipeline runs. It yields a function that is called with the number of bytes of each read; transforms
        with `input_bytes` count on their own.
    """
    from apache_beam.io.filesystems import FileSystems
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner

    def run_pipeline(
        original: Callable[..., object], runner: object, pipeline: beam.Pipeline, options: object
    ) -> object:
        size = _input_bytes(pipeline)
        if not size:
            return original(runner, pipeline, options)
        with watch(size) as count, replaced(FileSystems, "open", _opened_with(count)):
            return original(runner, pipeline, options)

    with replaced(FnApiRunner, "run_pipeline", run_pipeline):
        yield


def _input_bytes(pipeline: beam.Pipeline) -> int:
    """Returns how many bytes a pipeline is going to read; 0 if that is not known of one of its sources."""
    import apache_beam as beam
    from apache_beam.io.filebasedsource import FileBasedSource
    from apache_beam.pipeline import PipelineVisitor

    sizes: list[int] = []

    class Sources(PipelineVisitor):  # type: ignore[misc]
        def enter_composite_transform(self, node: Any) -> None:
            self.visit_transform(node)

        def visit_transform(self, node: Any) -> None:
            transform = node.transform
            if isinstance(transform, beam.io.Read) and isinstance(transform.source, FileBasedSource):
                sizes.append(transform.source.estimate_size() or 0)
            sizes.append(getattr(transform, "input_bytes", 0))

    try:
        pipeline.visit(Sources())
    except Exception:  # progress must not fail a run; the run reports a missing file itself
        return 0
    return sum(sizes)


def _opened_with(count: CountBytes) -> Callable[..., object]:
    from apache_beam.io.filesystem import CompressedFile, CompressionTypes

    def open_file(
        original: Callable[..., BinaryIO],
        path: str,
        mime_type: str = "application/octet-stream",
        compression_type: str = CompressionTypes.AUTO,
    ) -> object:
        if compression_type == CompressionTypes.AUTO:
            compression_type = CompressionTypes.detect_compression_type(path)
        raw = original(path, mime_type, CompressionTypes.UNCOMPRESSED)
        counted = io.BufferedReader(_CountedFile(raw, count), _READ_BYTES)
        if compression_type == CompressionTypes.UNCOMPRESSED:
            return counted
        return CompressedFile(counted, compression_type, read_size=_READ_BYTES)

    return open_file


class _CountedFile(io.RawIOBase):
    """A file opened for reading whose bytes are counted as they are read."""

    mode = "rb"

    def __init__(self, file: BinaryIO, count: CountBytes) -> None:
        self._file, self._count = file, count

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._file.seekable()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, buffer: Any) -> int:
        content = self._file.read(len(buffer))
        buffer[: len(content)] = content
        self._count(len(content))
        return len(content)

    def close(self) -> None:
        self._file.close()
        super().close()
