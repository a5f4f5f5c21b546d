"""Finds the statistics of a run's data: those of StatisticsGen, or else of a sample of the run's examples.

sources = [find_statistics("first", run), find_statistics("second", other)]
sources[0] == sources[1]  # the same data
sources[0].read("train")  # a DatasetFeatureStatisticsList
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ...executors.errors import InputError
from ...executors.examples_format import has_examples
from ...executors.runtime.files import file_io
from .run import Run
from .run_artifacts import artifacts_of, example_files, has_splits, payload_of

if TYPE_CHECKING:
    from tensorflow_metadata.proto.v0 import statistics_pb2

SPLITS = ("train", "eval")
_SECONDS = 10.0  # time limit for reading the examples of a split


@dataclasses.dataclass(frozen=True)
class StatisticsSource:
    """The source of a run's statistics; two runs with equal sources have the same data.

    Attributes:
      files: {split: files}, of statistics or of examples.
      payload: The payload format of files of examples; "" if the files are statistics.
      facts: Sizes, times and fingerprints of files of examples.
    """

    files: Mapping[str, Sequence[str]]
    payload: str = ""
    facts: object = None

    def read(self, split: str) -> statistics_pb2.DatasetFeatureStatisticsList:
        """Reads a split's statistics, or computes them from a sample of at most 10,000 examples.

        Raises:
          InputError: If there are no examples, or a file is damaged.
        """
        return _computed(self.files[split], self.payload) if self.payload else _read(self.files[split][0])


def find_statistics(name: str, run: Run) -> StatisticsSource:
    """Returns the source of a run's statistics.

    Args:
      name: The run's name in messages, such as "first".
      run: The run.

    Raises:
      InputError: If there are neither statistics nor examples, or the run's store cannot be read.
    """
    found = artifacts_of(run).get("ExampleStatistics", []) if run.execution is not None else []
    if folders := [one.uri for one in found if has_splits(one.uri)]:
        paths = {split: os.path.join(folders[-1], f"Split-{split}", "FeatureStats.pb") for split in SPLITS}
        return StatisticsSource({split: [path] for split, path in paths.items() if file_io.exists(path)})
    if not has_examples(payload := payload_of(run)):
        raise InputError(f"the {name} run has no statistics, and its data is not of tf.Examples, but {payload}")
    files = {split: example_files(run, split) for split in SPLITS}
    if not any(files.values()):
        raise InputError(f"the {name} run has no statistics, and its examples do not exist")
    existing = {split: paths for split, paths in files.items() if paths}
    return StatisticsSource(existing, payload, run.record.parts.get("data"))


def _read(path: str) -> statistics_pb2.DatasetFeatureStatisticsList:
    from tensorflow_metadata.proto.v0 import statistics_pb2

    found = statistics_pb2.DatasetFeatureStatisticsList.FromString(file_io.read_bytes(path))
    return statistics_pb2.DatasetFeatureStatisticsList(datasets=found.datasets[:1])  # the others are slices


def _computed(files: Sequence[str], payload: str) -> statistics_pb2.DatasetFeatureStatisticsList:
    from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

    from ...executors.compat.tfdv import statistics_of
    from ...executors.evaluation.eval_sample import sample_of

    records = sample_of(files, _SECONDS, payload).records
    if not records:
        raise InputError(f"{files[0]} has no examples")
    return statistics_of(ExamplesToRecordBatchDecoder().DecodeBatch(list(records)))
