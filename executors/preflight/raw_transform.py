"""Runs Transform on a few examples without a pipeline: analyzes and applies the module's preprocessing_fn.

Uses `tensorflow_transform.beam` as TFX's Transform executor does, without computing statistics.
"""

from __future__ import annotations

import functools
import inspect
import os
from types import ModuleType

import apache_beam as beam
import tensorflow as tf
import tensorflow_transform.beam as tft_beam
from apache_beam.options.pipeline_options import PipelineOptions
from tensorflow_transform.tf_metadata import dataset_metadata
from tfx_bsl.tfxio import tf_example_record

from ..compat.beam import IN_PROCESS, lookups_cached
from ..errors import InputError
from ..evaluation.transforming import TransformGraph
from ..fn_args import FnArgs
from ..runtime.files.schema import read_schema

_BEAM_ARGS = (IN_PROCESS, "--direct_running_mode=in_memory", "--direct_num_workers=1")


def transform(
    module: ModuleType, splits: dict[str, list[bytes]], schema_path: str, fn_args: FnArgs, folder: str
) -> tuple[str, dict[str, list[bytes]]]:
    """Analyzes the training split, and transforms all splits.

    Args:
      module: Module with a `preprocessing_fn(inputs[, custom_config])`.
      splits: Serialized raw tf.Examples by split.
      schema_path: Schema of the raw examples.
      fn_args: Provides the function's `custom_config`.
      folder: Folder for all output.

    Returns:
      The transform graph's folder, and the serialized transformed examples by split.
    """
    schema = read_schema(schema_path)
    tfxio = tf_example_record.TFExampleBeamRecord(physical_format="inmem", schema=schema)
    function = module.preprocessing_fn
    if "custom_config" in inspect.signature(function).parameters:  # as in TFX's executor
        function = functools.partial(function, custom_config=fn_args.custom_config)
    folder_of_graph, work = os.path.join(folder, "Transform/transform_graph/4"), os.path.join(folder, "transform_work")
    with (
        lookups_cached(),
        beam.Pipeline(options=PipelineOptions(list(_BEAM_ARGS))) as pipeline,
        tft_beam.Context(temp_dir=work, force_tf_compat_v1=not tf.compat.v1.executing_eagerly_outside_functions()),
    ):
        raw = pipeline | beam.Create(splits["train"]) | tfxio.BeamSource(len(splits["train"]))
        transform_fn = (raw, tfxio.TensorAdapterConfig()) | tft_beam.AnalyzeDataset(function)
        transform_fn | tft_beam.WriteTransformFn(folder_of_graph)
        metadata = dataset_metadata.DatasetMetadata(schema)
        metadata | tft_beam.WriteMetadata(os.path.join(folder_of_graph, "metadata"), pipeline)
    graph = TransformGraph(folder_of_graph)
    try:
        return folder_of_graph, {split: graph.encoded(graph.columns(records)) for split, records in splits.items()}
    except InputError as error:
        raise error.__cause__ or error from None  # which the user's function raises, not the data
