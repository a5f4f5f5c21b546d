"""Reads examples the way TFX does, for every payload format that TFX writes.

`DataAccessor` has the fields of TFX's, so modules that call `fn_args.data_accessor.tf_dataset_factory`
run unchanged. The readers are tfx_bsl's; it brings Beam along, so it is imported when a factory is
called and not before. Parquet, for which tfx_bsl has no dataset, is read in `parquet.py`.

Usage:

    accessor = DataAccessor.for_format(ExamplesFormat())
    dataset = accessor.tf_dataset_factory(patterns, TensorFlowDatasetOptions(batch_size=64), schema)
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa
    import tensorflow as tf

TF_EXAMPLE = "FORMAT_TF_EXAMPLE"
SEQUENCE_EXAMPLE = "FORMAT_TF_SEQUENCE_EXAMPLE"
PROTO = "FORMAT_PROTO"
PARQUET = "FORMAT_PARQUET"
PAYLOAD_FORMATS = (TF_EXAMPLE, SEQUENCE_EXAMPLE, PROTO, PARQUET)

_TELEMETRY = ["Trainer"]


@dataclasses.dataclass(frozen=True)
class ExamplesFormat:
    """How example files are encoded.

    Attributes:
      payload: A name of TFX's `PayloadFormat`, such as FORMAT_TF_EXAMPLE.
      data_view: Folder of the DataView that decodes FORMAT_PROTO records, or None.
    """

    payload: str = TF_EXAMPLE
    data_view: str | None = None

    def __post_init__(self) -> None:
        if self.payload not in PAYLOAD_FORMATS:
            raise ValueError(f"payload format {self.payload!r} is not one of {', '.join(PAYLOAD_FORMATS)}.")


class DataAccessor(NamedTuple):
    """Ways to read examples, whatever their format.

    Attributes:
      tf_dataset_factory: (patterns, TensorFlowDatasetOptions, schema) -> tf.data.Dataset of dicts of
        batched tensors, or of (dict, label) pairs when the options name a label.
      record_batch_factory: (patterns, RecordBatchesOptions, schema) -> iterator of Arrow record batches.
      data_view_decode_fn: Decodes a vector of serialized records; None without a data view.
    """

    tf_dataset_factory: Callable[..., tf.data.Dataset]
    record_batch_factory: Callable[..., Iterator[pa.RecordBatch]]
    data_view_decode_fn: Callable[[tf.Tensor], dict[str, Any]] | None

    @classmethod
    def for_format(cls, examples: ExamplesFormat) -> DataAccessor:
        """Builds the factories for one format; reads no data and imports no reader yet."""
        decode = None
        if examples.payload == PROTO and examples.data_view:
            decode = _data_view_decoder(examples.data_view)
        return cls(functools.partial(_tf_dataset, examples), functools.partial(_record_batches, examples), decode)


def _tf_dataset(examples: ExamplesFormat, file_pattern: list[str], options: Any, schema: Any = None) -> Any:
    if examples.payload == PARQUET:
        from . import parquet

        return parquet.tf_dataset(file_pattern, options, schema)
    return _tfxio(examples, file_pattern, schema).TensorFlowDataset(options)


def _record_batches(examples: ExamplesFormat, file_pattern: list[str], options: Any, schema: Any = None) -> Any:
    if examples.payload == PARQUET:
        from . import parquet

        return parquet.record_batches(file_pattern, options, schema)
    try:
        return _tfxio(examples, file_pattern, schema).RecordBatches(options)
    except NotImplementedError as error:
        raise NotImplementedError(
            f"{file_pattern}: tfx_bsl reads {examples.payload} as tf.data only. Use tf_dataset_factory."
        ) from error


def _tfxio(examples: ExamplesFormat, file_pattern: list[str], schema: Any) -> Any:
    if examples.payload == TF_EXAMPLE:
        from tfx_bsl.tfxio import tf_example_record

        return tf_example_record.TFExampleRecord(
            file_pattern=file_pattern, schema=schema, telemetry_descriptors=_TELEMETRY
        )
    if examples.payload == SEQUENCE_EXAMPLE:
        from tfx_bsl.tfxio import tf_sequence_example_record

        return tf_sequence_example_record.TFSequenceExampleRecord(
            file_pattern=file_pattern, schema=schema, telemetry_descriptors=_TELEMETRY
        )
    if not examples.data_view:
        raise ValueError(f"{file_pattern}: records of {PROTO} need a DataView to decode them, and none is attached.")
    from tfx_bsl.tfxio import record_to_tensor_tfxio

    return record_to_tensor_tfxio.TFRecordToTensorTFXIO(
        file_pattern=file_pattern, saved_decoder_path=examples.data_view, telemetry_descriptors=_TELEMETRY
    )


def _data_view_decoder(data_view: str) -> Callable[[tf.Tensor], dict[str, Any]]:
    """Returns the data view's decode function; the data view is loaded at the first call."""

    @functools.cache
    def decoder() -> Any:
        from tfx_bsl.tfxio import record_to_tensor_tfxio

        return record_to_tensor_tfxio.BeamRecordToTensorTFXIO(
            saved_decoder_path=data_view,
            telemetry_descriptors=_TELEMETRY,
            physical_format="data_view_access_only",
            raw_record_column_name=None,
        ).DecodeFunction()

    return lambda records: decoder()(records)
