"""Where the time of a profile went: every moment of it is one of five things.

    shares = read_shares("model_run/plugins/profile/2026_01_31_12_00_00", cpu_seconds=1.3)
    shares.seconds["input"], shares.steps

In this order, the first that holds:

* checkpoint: training stands still for a checkpoint (the part that is written in the background does not count);
* device: an operation computes: on a GPU or a TPU, or, where there is none, on the processor. What tf.data computes in
  threads of its own does not count, nor do Python functions in the graph, nor the writing of checkpoints;
* input: a step waits for the next batch of a tf.data iterator, and no operation computes meanwhile;
* host: of the rest, as much as the training thread has used the processor beside the operations that it ran itself:
  Python, and TensorFlow's starting of operations;
* idle: what remains; nothing known went on. A module that waits for its data without tf.data is idle, too.

Steps are the batches that tf.data iterators were asked for, those of an evaluation in between included.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypedDict

from ..runtime.files import file_io

if TYPE_CHECKING:
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

PAUSE, WRITE = "checkpoint", "checkpoint/write"  # what `checkpoint_writer` calls its part in a profile
CHECKPOINT, DEVICE, INPUT, HOST, IDLE = "checkpoint", "device", "input", "host", "idle"
SHOWN = (INPUT, HOST, DEVICE, IDLE, CHECKPOINT)

_CPU_PLANE = "/host:CPU"
_DEVICE_PLANE = re.compile(r"/device:(GPU|TPU)")
_PYTHON_LINE = "python"
_TF_DATA_LINE = "tf_data"
_OPERATION = re.compile(r"[^:]+:([A-Za-z_]\w*)")  # "dense/MatMul:MatMul"; names with "::" or ": " are the runtime's
_NEXT_BATCH = re.compile(r"(IteratorGetNextOp::|.*:IteratorGetNext|EagerLocalExecute: IteratorGetNext)")
_STEP = "Iterator::Root"
# Operations that wait for others, fetch input, call Python or write checkpoints.
_NO_COMPUTATION = re.compile(
    r"(Stateful)?PartitionedCall|While|StatelessWhile|If|StatelessIf|Case|RemoteCall|_Send|_Recv|_Arg|_Retval"
    r"|Iterator.*|.*Dataset.*|Optional.*|(Eager)?PyFunc.*|SaveV2|RestoreV2|MergeV2Checkpoints|NoOp|Const"
)
Span = tuple[float, float]


class ProfileJson(TypedDict, total=False):
    """A profile in the run's record; {} where none was taken.

    Attributes:
      seconds: How long it took.
      steps: Batches in that time.
      shares: Of 1, by what they went to.
      step_ms: Milliseconds of a step, likewise; only where there are steps.
      folder: Where the profile lies.
    """

    seconds: float
    steps: int
    shares: dict[str, float]
    step_ms: dict[str, float]
    folder: str


@dataclasses.dataclass(frozen=True)
class Shares:
    """Where time went.

    Attributes:
      wall: Seconds that were profiled.
      seconds: Of these, by what they went to; they sum up to `wall`.
      steps: Batches in that time; 0 where none went through tf.data.
    """

    wall: float
    seconds: dict[str, float]
    steps: int

    def to_json(self) -> ProfileJson:
        """Returns shares of 1, and milliseconds of a step where there are steps, for the run's record."""
        record: ProfileJson = {
            "seconds": round(self.wall, 3),
            "steps": self.steps,
            "shares": {name: round(self.seconds[name] / self.wall, 4) for name in SHOWN},
        }
        if self.steps:
            record["step_ms"] = {name: round(1000 * self.seconds[name] / self.steps, 3) for name in SHOWN}
        return record

    def __str__(self) -> str:
        """Says it in a line: "41 steps of 48.9 ms: input 71.2 % (34.8 ms), host …"."""
        parts = []
        for name in SHOWN:
            each = f" ({1000 * self.seconds[name] / self.steps:.3g} ms)" if self.steps else ""
            parts.append(f"{name} {100 * self.seconds[name] / self.wall:.1f} %{each}")
        what = f"{self.steps} steps of {1000 * self.wall / self.steps:.3g} ms" if self.steps else f"{self.wall:.3g} s"
        return f"{what}: {', '.join(parts)}"


def read_shares(folder: str, cpu_seconds: float) -> Shares | None:
    """Reads a profile as TensorFlow has written it.

    Args:
      folder: With its `.xplane.pb` files; the first host's counts.
      cpu_seconds: Processor time of the training thread meanwhile.

    Returns:
      The shares, or None when the profile holds no event.
    """
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    [name, *_] = (name for name in file_io.listdir(folder) if name.endswith(".xplane.pb"))
    space = xplane_pb2.XSpace()
    space.ParseFromString(file_io.read_bytes(os.path.join(folder, name)))
    return shares_of(_events(space), cpu_seconds)


@dataclasses.dataclass(frozen=True)
class Event:
    """Something that the profiler saw: name, line (thread), beginning and end in seconds; whether on a GPU or TPU."""

    name: str
    line: str
    begin: float
    end: float
    on_device: bool = False


def _events(space: xplane_pb2.XSpace) -> Iterator[Event]:
    for plane in space.planes:
        on_device = bool(_DEVICE_PLANE.match(plane.name))
        if not on_device and plane.name != _CPU_PLANE:
            continue
        for line in plane.lines:
            for event in line.events:
                begin = line.timestamp_ns / 1e9 + event.offset_ps / 1e12
                name = plane.event_metadata[event.metadata_id].name
                yield Event(name, line.name, begin, begin + event.duration_ps / 1e12, on_device)


def shares_of(events: Iterable[Event], cpu_seconds: float) -> Shares | None:
    """Computes the shares of the time from the first event to the last; the module's docstring says how."""
    seen = list(events)
    if not seen:
        return None
    wall = max(event.end for event in seen) - min(event.begin for event in seen)
    has_device = any(event.on_device for event in seen)
    computing = [event for event in seen if (event.on_device if has_device else _computes(event))]
    paused = _union(_span(event) for event in seen if event.name == PAUSE)
    device = _union(map(_span, computing))
    waiting = _union(_span(event) for event in seen if _NEXT_BATCH.match(event.name))
    own = _length(_union(_span(event) for event in computing if event.line == _PYTHON_LINE))
    seconds = {
        CHECKPOINT: _length(paused),
        DEVICE: _length(_union([*device, *paused])) - _length(paused),
        INPUT: _length(_union([*waiting, *device, *paused])) - _length(_union([*device, *paused])),
    }
    rest = max(wall - sum(seconds.values()), 0.0)
    seconds[HOST] = min(max(cpu_seconds - own, 0.0), rest)
    seconds[IDLE] = rest - seconds[HOST]
    return Shares(wall, seconds, sum(event.name == _STEP for event in seen))


def _computes(event: Event) -> bool:
    """Returns whether an event is an operation at work on the processor."""
    operation = _OPERATION.fullmatch(event.name)
    if operation is None or event.line.startswith(_TF_DATA_LINE):
        return False
    return not _NO_COMPUTATION.fullmatch(operation.group(1))


def _span(event: Event) -> Span:
    return event.begin, event.end


def _union(spans: Iterable[Span]) -> list[Span]:
    """Returns the same moments as spans that do not overlap."""
    merged: list[Span] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((begin, end))
    return merged


def _length(spans: Iterable[Span]) -> float:
    return sum(end - begin for begin, end in spans)
