"""Reads from the object that `custom_data_reader` of an ElasticDL model file returns: a reader or a tf.data.Dataset.

A reader has `create_shards()` and `read_records(task)`, and optionally `records_output_types` and `metadata`. It need
not inherit from ElasticDL's AbstractDataReader. It is read shard by shard.

Usage:

    records = open_custom(module.custom_data_reader(data_origin="/data", records_per_task=None), "/data")
"""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import tensorflow as tf

from ....errors import InputError
from ....inputs.readers.reader_errors import ReaderErrors
from .records import Metadata, Records, Shard

if TYPE_CHECKING:
    from ....inputs.readers.reader_errors import Nested

Leaf = TypeVar("Leaf")
New = TypeVar("New")

KIND = "custom"

_MAX_BLOCK_ROWS = 1024
_RECORDS_SAMPLED = 32


@dataclasses.dataclass(frozen=True)
class TaskShard:
    """The shard of a task, as in ElasticDL's last versions.

    Attributes:
      name: Name of the shard.
      start: Number of the first record.
      end: Number of the record to stop before.
      indices: Record indices of a shuffled shard; always empty here.
    """

    name: str
    start: int
    end: int
    indices: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class Task:
    """The argument of `read_records`; its properties repeat the shard's fields, as in ElasticDL 0.2.0.

    Attributes:
      task_id: Number of the shard, from 0.
      shard: The shard to read.
      type: Always None; ElasticDL's task types are not used.
    """

    task_id: int
    shard: TaskShard
    type: None = None

    @property
    def shard_name(self) -> str:
        """Name of the shard."""
        return self.shard.name

    @property
    def start(self) -> int:
        """Number of the first record."""
        return self.shard.start

    @property
    def end(self) -> int:
        """Number of the record to stop before."""
        return self.shard.end


class CustomReader(Protocol):
    """A reader that a model file returns; `records_output_types` and `metadata` are optional attributes."""

    def create_shards(self) -> Mapping[str, Sequence[int]] | Iterable[Sequence[Any]] | None:
        """Returns {name: (start, count)}, an iterable of (name, start, count), or None for a single shard."""

    def read_records(self, task: Task, /) -> Iterable[object]:
        """Returns or yields the records of a task."""


def open_custom(reader: CustomReader | tf.data.Dataset, origin: str = "") -> Records:
    """Opens the records of a custom reader.

    One thread reads the shards in order, ahead of the training (ElasticDL never called a reader from two threads).
    Records may have any shape; dimensions in which the first 32 records agree are static.

    Args:
      reader: A tf.data.Dataset, or a `CustomReader`.
      origin: Path or name of the data, for messages (default: the reader's class), and the name of the only shard if
        `create_shards` returns None.

    Raises:
      InputError: If `reader` is neither; while reading, if a record does not match `records_output_types` or the shape
        of the first records, or if a shard has fewer records than announced. Exceptions of the reader itself are
        re-raised unchanged by `Records.reraising()`.
    """
    if isinstance(reader, tf.data.Dataset):
        return Records(origin, KIND, Metadata(None), lambda _: reader)
    for name in ("read_records", "create_shards"):
        if not callable(getattr(reader, name, None)):
            raise InputError(
                f"custom_data_reader returned {type(reader).__name__}, which has no {name}(). Return an object with "
                "read_records(task) and create_shards(), or a tf.data.Dataset."
            )
    errors = ReaderErrors()
    origin = origin or type(reader).__name__

    def dataset(shards: Sequence[Shard] | None) -> tf.data.Dataset:
        chosen = _shards(reader, origin) if shards is None else shards
        first = list(itertools.islice(_read(reader, chosen), _RECORDS_SAMPLED))
        if not first:
            raise InputError(f"{origin}: the custom reader yields no records.")
        types = _types(reader, first[0])
        signature = _signature(types, [_arrays(record, types) for record in first])
        return errors.dataset(lambda: _blocks(_read(reader, chosen), types, signature, origin), signature)

    metadata = getattr(reader, "metadata", None) or Metadata(None)
    return Records(origin, KIND, metadata, dataset, lambda: _shards(reader, origin), errors)


def _shards(reader: CustomReader, origin: str) -> list[Shard]:
    """Returns the reader's shards, from either of ElasticDL's two forms; for None, one shard of the whole origin."""
    created = reader.create_shards()
    if created is None:  # as ElasticDL's own CSV reader returns
        return [Shard(origin, 0, sys.maxsize)]
    try:
        rows = [(name, *place) for name, place in created.items()] if isinstance(created, Mapping) else list(created)
        shards = [Shard(name, start, start + count) for name, start, count, *_ in rows]
    except (TypeError, ValueError) as error:
        raise InputError(
            f"create_shards() returned {created!r}; return a list of (name, start, count), or {{name: (start, count)}}."
        ) from error
    if not shards:
        raise InputError(f"{origin}: there are no records; the custom reader's create_shards() returned none.")
    return shards


def _read(reader: CustomReader, shards: Sequence[Shard]) -> Iterator[object]:
    for number, shard in enumerate(shards):
        count = 0
        for record in reader.read_records(Task(number, TaskShard(shard.name, shard.start, shard.end))):
            yield record
            count += 1
        if count < (announced := shard.end - shard.start) and shard.end != sys.maxsize:
            raise InputError(
                f"{shard.name or 'shard'}, records {shard.start} to {shard.end - 1}: read_records() yields {count} "
                f"records, but create_shards() announced {announced}. Return the real number of records from "
                "create_shards(), or None if it is unknown."
            )


def _types(reader: CustomReader, first: object) -> Nested[tf.DType]:
    """Returns the structure of dtypes that the reader declares, or else that of its first record."""
    types = getattr(reader, "records_output_types", None)
    if types is None:
        return _packed(first, iter([_array(value, None).dtype for _, value in _leaves(first, first)]))
    return types


def _signature(types: Nested[tf.DType], first: Sequence[list[np.ndarray]]) -> Nested[tf.TensorSpec]:
    """Returns the type specs of a block, with static shapes where the first records agree."""
    kinds = [kind for kind, _ in _leaves(types, types)]
    return _packed(types, map(_spec, kinds, zip(*first, strict=True)))


def _spec(kind: tf.DType, values: Sequence[np.ndarray]) -> tf.TensorSpec:
    shapes = [value.shape for value in values]
    if len({len(shape) for shape in shapes}) > 1:
        return tf.TensorSpec(None, kind)
    common = [sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*shapes, strict=True)]
    return tf.TensorSpec([None, *common], kind)


def _blocks(
    records: Iterator[object], types: Nested[tf.DType], signature: Nested[tf.TensorSpec], origin: str
) -> Iterator[Nested[np.ndarray]]:
    """Yields blocks of 1, 2, 4, … up to 1024 records: low latency for slow readers first, then low overhead per record.

    A block ends early before a record whose shape differs.
    """
    block: list[list[np.ndarray]] = []
    shapes: list[tuple[int, ...]] = []
    size = 1
    for record in records:
        arrays = _arrays(record, types)
        if (found := [array.shape for array in arrays]) != shapes:
            _check_shapes(found, signature, origin)
        if block and (len(block) >= size or found != shapes):
            yield _stacked(block, types)
            block, size = [], min(2 * size, _MAX_BLOCK_ROWS)
        shapes = found
        block.append(arrays)
    if block:
        yield _stacked(block, types)


def _stacked(block: list[list[np.ndarray]], types: Nested[tf.DType]) -> Nested[np.ndarray]:
    return _packed(types, map(np.stack, zip(*block, strict=True)))


def _check_shapes(shapes: list[tuple[int, ...]], signature: Nested[tf.TensorSpec], origin: str) -> None:
    for shape, (spec, _) in zip(shapes, _leaves(signature, signature), strict=True):
        if not spec.shape.is_compatible_with((None, *shape)):
            raise InputError(
                f"{origin}: the custom reader yields a record of shape {shape}, but the first {_RECORDS_SAMPLED} "
                f"have {spec.shape[1:]}. Pad the records, or return a tf.data.Dataset."
            )


def _arrays(record: object, types: Nested[tf.DType]) -> list[np.ndarray]:
    try:
        return [_array(value, tf.as_dtype(kind)) for kind, value in _leaves(types, record)]
    except (TypeError, ValueError, KeyError, IndexError) as error:
        raise InputError(
            f"the custom reader yields {record!r}, which does not fit records_output_types = {types!r}: {error}"
        ) from error


def _array(value: object, kind: tf.DType | None) -> np.ndarray:
    array: np.ndarray = np.asarray(value, None if kind is None else kind.as_numpy_dtype)
    if array.dtype.kind in "SU":
        array = array.astype(object)
    return array


def _leaves(structure: Nested[Leaf], value: Any) -> list[tuple[Leaf, object]]:
    """Returns pairs of a structure's leaf and the corresponding part of the value; lists are leaves, as in tf.data."""
    if isinstance(structure, Mapping):
        return [leaf for name in structure for leaf in _leaves(structure[name], value[name])]
    if isinstance(structure, tuple):
        return [leaf for part, item in zip(structure, value, strict=True) for leaf in _leaves(part, item)]
    return [(structure, value)]


def _packed(structure: Nested[Leaf], leaves: Iterator[New]) -> Nested[New]:
    """Returns the structure with its leaves replaced."""
    if isinstance(structure, Mapping):
        return {name: _packed(structure[name], leaves) for name in structure}
    if isinstance(structure, tuple):
        return tuple(_packed(part, leaves) for part in structure)
    return next(leaves)
