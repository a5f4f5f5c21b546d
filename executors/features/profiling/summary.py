"""Splits the time of a TensorFlow profile into input, host, device, idle and checkpoint.

    shares = read_shares("model_run/plugins/profile/2026_01_31_12_00_00", cpu_seconds=1.3)
    shares.seconds["input"], shares.steps

Each moment is assigned to the first of these that applies:

* checkpoint: training is paused for a checkpoint (writing in the background does not count);
* device: an operation computes: on a GPU or TPU, or without one on the CPU. Computations in tf.data threads, Python
  functions in the graph and checkpoint writing do not count;
* input: a step waits for the next batch of a tf.data iterator, and no operation computes meanwhile;
* host: of the remaining time, the CPU time of the training thread outside of the operations that it ran itself: Python,
  and TensorFlow's dispatch of operations;
* idle: the rest, without known activity. A module that waits for its data without tf.data is idle, too.

Steps are the batches requested from tf.data iterators, including those of evaluations in between.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ...checkpoints.background_writer import PAUSE
from ...runtime.files import file_io

if TYPE_CHECKING:
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

CHECKPOINT, DEVICE, INPUT, HOST, IDLE = "checkpoint", "device", "input", "host", "idle"
SHOWN = (INPUT, HOST, DEVICE, IDLE, CHECKPOINT)

_CPU_PLANE = "/host:CPU"
_DEVICE_PLANE = re.compile(r"/device:(GPU|TPU)")
_PYTHON_LINE = "python"
_TF_DATA_LINE = "tf_data"
_OPERATION = re.compile(r"[^:]+:([A-Za-z_]\w*)")  # "dense/MatMul:MatMul"; runtime events have "::" or ": "
_NEXT_BATCH = re.compile(r"(IteratorGetNextOp::|.*:IteratorGetNext|EagerLocalExecute: IteratorGetNext)")
_STEP = "Iterator::Root"
# Operations that wait for others, fetch input, call Python or write checkpoints.
_NO_COMPUTATION = re.compile(
    r"(Stateful)?PartitionedCall|While|StatelessWhile|If|StatelessIf|Case|RemoteCall|_Send|_Recv|_Arg|_Retval"
    r"|Iterator.*|.*Dataset.*|Optional.*|(Eager)?PyFunc.*|SaveV2|RestoreV2|MergeV2Checkpoints|NoOp|Const"
)
Span = tuple[float, float]


@dataclasses.dataclass(frozen=True)
class Shares:
    """Time by category.

    Attributes:
      wall: Profiled seconds.
      seconds: Seconds by category; they sum up to `wall`.
      steps: Number of batches in that time; 0 if tf.data was not used.
    """

    wall: float
    seconds: dict[str, float]
    steps: int

    def to_json(self) -> dict[str, object]:
        """Returns fractions of the time, and milliseconds per step if there are steps, for the run record."""
        record: dict[str, object] = {
            "seconds": round(self.wall, 3),
            "steps": self.steps,
            "shares": {name: round(self.seconds[name] / self.wall, 4) for name in SHOWN},
        }
        if self.steps:
            record["step_ms"] = {name: round(1000 * self.seconds[name] / self.steps, 3) for name in SHOWN}
        return record

    def __str__(self) -> str:
        """Returns one line: "41 steps of 48.9 ms: input 71.2 % (34.8 ms), host …"."""
        parts = []
        for name in SHOWN:
            each = f" ({1000 * self.seconds[name] / self.steps:.3g} ms)" if self.steps else ""
            parts.append(f"{name} {100 * self.seconds[name] / self.wall:.1f} %{each}")
        what = f"{self.steps} steps of {1000 * self.wall / self.steps:.3g} ms" if self.steps else f"{self.wall:.3g} s"
        return f"{what}: {', '.join(parts)}"


def read_shares(folder: str, cpu_seconds: float) -> Shares | None:
    """Reads a profile in TensorFlow's format.

    Args:
      folder: The folder with the `.xplane.pb` files; only the first file, of one host, is read.
      cpu_seconds: CPU time of the training thread during the profile.

    Returns:
      The shares, or None when the profile contains no events.
    """
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    [name, *_] = (name for name in file_io.listdir(folder) if name.endswith(".xplane.pb"))
    space = xplane_pb2.XSpace()
    space.ParseFromString(file_io.read_bytes(os.path.join(folder, name)))
    return shares_of(_events(space), cpu_seconds)


@dataclasses.dataclass(frozen=True)
class Event:
    """A profiler event: name, line (thread), begin and end in seconds, and whether it ran on a GPU or TPU."""

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
    """Computes the shares of the time from the first event to the last, as defined in the module docstring."""
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
    """Whether an event is the execution of an operation on the CPU."""
    operation = _OPERATION.fullmatch(event.name)
    if operation is None or event.line.startswith(_TF_DATA_LINE):
        return False
    return not _NO_COMPUTATION.fullmatch(operation.group(1))


def _span(event: Event) -> Span:
    return event.begin, event.end


def _union(spans: Iterable[Span]) -> list[Span]:
    """Merges overlapping spans."""
    merged: list[Span] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((begin, end))
    return merged


def _length(spans: Iterable[Span]) -> float:
    return sum(end - begin for begin, end in spans)
