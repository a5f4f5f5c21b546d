"""Reads metrics from TensorBoard event files, without TensorFlow and without TensorBoard's loader.

    for moment, step, tag, value in scalars("out/model_run/train/events.out.tfevents.1"):
        …

Event files are TFRecord files. Reading ends without an error at a damaged event, or at one that is being written.
"""

from __future__ import annotations

import contextlib
import operator
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from ..errors import InputError
from ..inputs.gzipped_files import opened
from ..inputs.tfrecord.framing import read_frames
from .metrics import Metrics, by_split, sizes_of_event_files, split_of

if TYPE_CHECKING:
    from tensorboard.compat.proto import event_pb2, tensor_pb2

# By DataType number in types.proto: the TensorProto field of single values, and the struct format of `tensor_content`.
_SCALARS = {
    1: ("float_val", "<f"),
    2: ("double_val", "<d"),
    3: ("int_val", "<i"),
    9: ("int64_val", "<q"),
    10: ("bool_val", "<?"),
    19: ("", "<e"),
}
_NO_METRICS = ("_vs_iterations", "/sec", "_per_second")  # endings of tags


def from_event_files(folder: str, earlier: Mapping[str, int] | None = None) -> Metrics:
    """Reads the last value of every scalar in the TensorBoard event files below a folder.

    Args:
      folder: The model run folder; may not exist.
      earlier: The result of `sizes_of_event_files` when the run began: everything before these offsets is skipped, as
        part of an earlier run. Sizes are used instead of timestamps, because the system clock may be changed during a
        run.

    Returns:
      {"train": {"loss": 0.3}, "eval": {"auc": 0.93}}; a split without scalars is missing. A folder named eval…,
      validation…, val… or test… holds eval metrics, and so do names such as `eval/auc` and `val_auc`. Keras' prefix
      `epoch_` is dropped.
    """
    values: dict[tuple[str, str], tuple[float, float]] = {}
    for name in sizes_of_event_files(folder):
        last: dict[tuple[str, str], tuple[float, float]] = {}
        split = split_of(os.path.dirname(name))
        for moment, _, tag, value in scalars(os.path.join(folder, name), (earlier or {}).get(name, 0)):
            if not tag.endswith(_NO_METRICS):
                last[split, tag.removeprefix("epoch_")] = (moment, value)
        for key, latest in last.items():
            values[key] = max(latest, values.get(key, (0.0, 0.0)), key=operator.itemgetter(0))
    return by_split((split, tag, value) for (split, tag), (_, value) in values.items())


def scalars(path: str, start: int = 0) -> Iterator[tuple[float, int, str, float]]:
    """Yields (wall time, step, tag, value) of the scalars in an event file, from a byte offset to its last whole event.

    Scalars are tensors since TensorFlow 2, and were `simple_value`s before, which Estimators still write.
    """
    known: set[str] = set()  # writers may add plug-in metadata only to a tag's first value
    for event in _events(path, start):
        for value in event.summary.value:
            if value.HasField("simple_value"):
                yield event.wall_time, event.step, value.tag, value.simple_value
                continue
            if value.metadata.plugin_data.plugin_name == "scalars":
                known.add(value.tag)
            if value.tag in known and value.HasField("tensor"):
                number = _number(value.tensor)
                if number is not None:
                    yield event.wall_time, event.step, value.tag, number


def _events(path: str, start: int) -> Iterator[event_pb2.Event]:
    from tensorboard.compat.proto import event_pb2

    with contextlib.suppress(InputError, DecodeError), opened(path) as file:
        file.seek(start)
        for frame in read_frames(file, path, offset=start):
            if frame.record is None:
                return
            yield event_pb2.Event.FromString(frame.record)


def _number(tensor: tensor_pb2.TensorProto) -> float | None:
    """Returns the value of a one-element tensor; None for other shapes or unsupported types."""
    field, form = _SCALARS.get(tensor.dtype, ("", ""))
    if any(dimension.size != 1 for dimension in tensor.tensor_shape.dim) or not form:
        return None
    if tensor.tensor_content:
        content = tensor.tensor_content
        return float(struct.unpack(form, content)[0]) if len(content) == struct.calcsize(form) else None
    values: Sequence[float] = getattr(tensor, field) if field else ()
    return float(values[0]) if len(values) == 1 else None
