"""TensorBoard event files: a corrupt file gives the scalars before the corruption, without an error."""

from __future__ import annotations

from tensorboard.compat.proto import event_pb2

from generic_trainer.executors.monitoring.event_files import scalars

from .target import file_of
from .tf_records import framed


def _event(step: int, **value: object) -> event_pb2.Event:
    event = event_pb2.Event(wall_time=1.5, step=step)
    event.summary.value.add(tag="loss", **value)
    return event


_OLD = _event(1, simple_value=0.5)
_NEW = _event(2)
_NEW.summary.value[0].metadata.plugin_data.plugin_name = "scalars"
_NEW.summary.value[0].tensor.dtype = 1
_NEW.summary.value[0].tensor.float_val.append(0.25)
_PACKED = _event(3)
_PACKED.summary.value[0].tensor.dtype = 2
_PACKED.summary.value[0].tensor.tensor_content = b"\0" * 8
_ALL = b"".join(framed(event.SerializeToString()) for event in (_OLD, _NEW, _PACKED))
SEEDS = [b"", _ALL, _ALL[:-5], *(framed(event.SerializeToString()) for event in (_OLD, _NEW, _PACKED))]


def check(data: bytes) -> None:
    """Reads the file and its first half; the scalars of the half must be a prefix of those of the file."""
    found = list(scalars(file_of(data, "events.out.tfevents.1")))
    assert all(isinstance(value, float) and isinstance(step, int) for _, step, _, value in found)
    before = list(scalars(file_of(data[: len(data) // 2], "events.out.tfevents.1")))
    assert repr(before) == repr(found[: len(before)])  # NaN is not equal to itself
