"""A drop-in for TFX's CsvExampleGen that writes the same examples to the same splits in a fraction of its time."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import apache_beam as beam
import tensorflow as tf
from tfx.components.example_gen.csv_example_gen import component, executor
from tfx.dsl.components.base import executor_spec
from tfx.dsl.io import fileio
from tfx.proto import example_gen_pb2
from tfx.types import standard_component_specs
from tfx.utils import proto_utils

from ..executors.errors import InputError
from ..executors.inputs.csv.example_rows import column_names, column_types, examples_in, merged_types
from ..executors.monitoring.step_progress import progress_of_steps
from ..executors.runtime.files import file_io
from ..executors.runtime.logs.remembered_error import remember_error
from ..executors.runtime.work import advance
from .example_gen_driver import ContentDriver

if TYPE_CHECKING:
    from tfx import types

_CONVERSION = 4  # time of converting and writing a row, in units of the time of inferring its types


class CsvExampleGenExecutor(executor.Executor):
    """TFX's executor with another conversion of rows to tf.Examples."""

    @remember_error()
    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Converts the files and writes the splits, as TFX's executor does."""
        try:
            with progress_of_steps(lambda: "CsvExampleGen"):
                super().Do(input_dict, output_dict, exec_properties)
        except InputError as error:  # Beam has added the name of the transform
            raise InputError(str(error).partition(" [while running ")[0]) from error

    def GetInputSourceToExamplePTransform(self) -> type[beam.PTransform]:
        """Returns the class of the transform from CSV files to examples."""
        return _CsvToExamples


class CsvExampleGen(component.CsvExampleGen):
    """TFX's component with another executor and driver; see there for its arguments."""

    DRIVER_CLASS = ContentDriver
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(CsvExampleGenExecutor)


@beam.typehints.with_input_types(beam.Pipeline)
class _CsvToExamples(beam.PTransform):  # type: ignore[misc]
    """Reads the files of a split: each file twice, first to infer the column types.

    Args:
      exec_properties: The step's execution properties.
      split_pattern: Pattern of the files, below the property `input_base`.

    Attributes:
      input_bytes: The work to count as in `compat.beam.reads_counted`: a byte of the first reading is 1.
    """

    input_bytes = 0

    def __init__(self, exec_properties: dict[str, Any], split_pattern: str) -> None:
        super().__init__()
        self._pattern = os.path.join(exec_properties[standard_component_specs.INPUT_BASE_KEY], split_pattern)
        output = example_gen_pb2.Output()
        proto_utils.json_to_proto(exec_properties[standard_component_specs.OUTPUT_CONFIG_KEY], output)
        self._splits_by_feature = output.split_config.HasField("partition_feature_name")

    @beam.typehints.no_annotations
    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection:
        """Returns serialized tf.Examples, or tf.Examples if they are split by a feature, which TFX reads from them."""
        paths = fileio.glob(self._pattern)
        if not paths:
            raise InputError(f"There is no file {self._pattern}.")
        names = column_names(paths)
        self.input_bytes = (1 + _CONVERSION) * sum(map(file_io.size_of, paths))
        files = pipeline | "Files" >> beam.Create(paths)
        # Functions without annotations, which Beam would not understand.
        types = (
            files
            | "TypesOfFile" >> beam.Map(lambda path: column_types(path, names, advance))
            | "Types" >> beam.CombineGlobally(lambda types: merged_types(types))
        )
        examples = files | "Examples" >> beam.FlatMap(
            lambda path, types: examples_in(path, names, types, lambda size: advance(_CONVERSION * size)),
            beam.pvalue.AsSingleton(types),
        )
        return examples | "Parse" >> beam.Map(tf.train.Example.FromString) if self._splits_by_feature else examples
