"""Rows on ElasticDL's names: which there are, and what stands behind those that are no layers."""

from __future__ import annotations

import importlib
import os
import pathlib
import sys
import types

import pytest
import tensorflow as tf

from generic_trainer.executors.dialects.elasticdl.shim import provide_elasticdl
from generic_trainer.executors.errors import InputError

# As model files write them, in all versions of ElasticDL.
IMPORTS = """
from elasticdl.python.common.constants import Mode, MaxComputeConfig, ODPSConfig, MetricsDictKey, JobType, ReaderType
from elasticdl.python.elasticdl.common.constants import Mode
from elasticdl.python.common.log_utils import default_logger as logger, get_logger
from elasticdl.python.common.log_util import default_logger
from elasticdl.python.elasticdl.callbacks import LearningRateScheduler, MaxStepsStopping, SavedModelExporter
from elasticdl.python.elasticdl.callbacks.learning_rate_scheduler import LearningRateScheduler
from elasticdl.python.elasticdl.callbacks.max_steps_stopping import MaxStepsStopping
from elasticdl.python.elasticdl.callbacks.saved_model_exporter import SavedModelExporter
from elasticdl.python.worker.prediction_outputs_processor import BasePredictionOutputsProcessor
from elasticdl.python.data.reader.data_reader import AbstractDataReader, Metadata, check_required_kwargs
from elasticdl.python.data.data_reader import AbstractDataReader, Metadata, RecordIODataReader, ODPSDataReader
from elasticdl.python.data.reader.csv_reader import CSVDataReader
from elasticdl.python.data.reader.text_reader import TextDataReader
from elasticdl.python.data.reader.recordio_reader import RecordIODataReader
from elasticdl.python.data.reader.odps_reader import ODPSDataReader, ParallelODPSDataReader
from elasticdl.python.data.odps_io import ODPSReader, ODPSWriter, is_odps_configured
from elasticdl.python.common.odps_io import ODPSReader, ODPSWriter
from elasticdl.python.elasticdl import layers, callbacks
from elasticdl.python.elasticdl.layers.embedding import Embedding
from elasticdl.layers import Embedding
from elasticdl.python.elasticdl.feature_column import feature_column
from elasticdl.python.elasticdl.feature_column.feature_column import embedding_column, EmbeddingColumn
from elasticdl_preprocessing.layers import ConcatenateWithOffset, Discretization, Hashing, IndexLookup, LogRound
from elasticdl_preprocessing.layers import Normalizer, RoundIdentity, SparseEmbedding, ToNumber, ToRagged, ToSparse
from elasticdl_preprocessing.layers.concatenate_with_offset import ConcatenateWithOffset
from elasticdl_preprocessing.layers.discretization import Discretization
from elasticdl_preprocessing.layers.hashing import Hashing
from elasticdl_preprocessing.layers.index_lookup import IndexLookup
from elasticdl_preprocessing.layers.log_round import LogRound
from elasticdl_preprocessing.layers.normalizer import Normalizer
from elasticdl_preprocessing.layers.round_identity import RoundIdentity
from elasticdl_preprocessing.layers.sparse_embedding import SparseEmbedding
from elasticdl_preprocessing.layers.to_number import ToNumber
from elasticdl_preprocessing.layers.to_ragged import ToRagged
from elasticdl_preprocessing.layers.to_sparse import ToSparse
from elasticdl_preprocessing.feature_column import feature_column as edl_fc
from elasticdl_preprocessing.feature_column.feature_column import concatenated_categorical_column
from elasticdl_preprocessing.constants import AnalysisEnvTemplate
from elasticdl_preprocessing.utils import analyzer_utils, analyzer_util
from elasticdl_preprocessing.utils.decorators import declare_model_inputs, model_input_name
from recordio import File, Index, Scanner, Writer
import elasticdl.python.common.constants
import recordio
"""


def every_import_resolves(unused: pathlib.Path) -> None:
    names: dict[str, object] = {}
    for line in IMPORTS.strip().splitlines():
        exec(line, names)  # noqa: S102
    assert names["elasticdl"].python.common.constants.Mode is names["Mode"]  # type: ignore[attr-defined]


def what_is_not_provided_is_not_there(unused: pathlib.Path) -> None:
    with pytest.raises(ModuleNotFoundError, match=r"elasticdl\.python\.master"):
        importlib.import_module("elasticdl.python.master")


def providing_twice_changes_nothing(unused: pathlib.Path) -> None:
    before = {name: module for name, module in sys.modules.items() if name.startswith("elasticdl")}
    provide_elasticdl()
    assert len(before) > 20
    assert all(sys.modules[name] is module for name, module in before.items())


def an_installed_package_is_left_as_it_is(folder: pathlib.Path) -> None:
    (folder / "recordio").mkdir()
    (folder / "recordio" / "__init__.py").write_text("real = True\n")
    ours = sys.modules.pop("recordio")
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        provide_elasticdl()
        assert importlib.import_module("recordio").real
    finally:
        sys.path.remove(str(folder))
        sys.modules["recordio"] = ours


def a_folder_of_the_name_is_no_package(folder: pathlib.Path) -> None:
    (folder / "recordio").mkdir()
    ours = sys.modules.pop("recordio")
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        provide_elasticdl()
        assert importlib.import_module("recordio").Writer
    finally:
        sys.path.remove(str(folder))
        sys.modules["recordio"] = ours


def modes_are_strings(unused: pathlib.Path) -> None:
    from elasticdl.python.common.constants import Mode

    assert (Mode.TRAINING, Mode.EVALUATION, Mode.PREDICTION) == ("training", "evaluation", "prediction")
    assert (Mode.Training, Mode.Evaluation, Mode.Prediction) == ("training", "evaluation", "prediction")


def metadata_knows_types_of_maxcompute(unused: pathlib.Path) -> None:
    from elasticdl.python.data.reader.data_reader import Metadata

    metadata = Metadata(column_names=["a", "b"], column_dtypes={"a": "bigint", "b": "datetime"})
    assert metadata.get_tf_dtype_from_maxcompute_column("a") == tf.int64
    with pytest.raises(ValueError, match="'b' has the type datetime; supported types are bigint"):
        metadata.get_tf_dtype_from_maxcompute_column("b")
    with pytest.raises(ValueError, match="'a' is unknown"):
        Metadata(["a"]).get_tf_dtype_from_maxcompute_column("a")


def csv_rows_have_the_chosen_columns_in_order(folder: pathlib.Path) -> None:
    from elasticdl.python.data.reader.csv_reader import CSVDataReader

    path = folder / "data.csv"
    path.write_text('a,b,c\n1,"x,y",3\n4,z,6\n')
    reader = CSVDataReader(data_dir=str(path), sep=",", columns=["c", "b"])
    assert reader.create_shards() == {str(path): (0, 2)}
    task = types.SimpleNamespace(shard_name=str(path), start=0, end=2)
    assert list(reader.read_records(task)) == [["3", "x,y"], ["6", "z"]]
    assert reader.metadata.column_names == ["c", "b"]
    with pytest.raises(InputError, match=r"there is no column 'd'. It has a, b, c"):
        next(CSVDataReader(sep=",", columns=["d"]).read_records(task))
    with pytest.raises(InputError, match=r"lacks sep \(set: columns\)"):
        CSVDataReader(columns=["a"])


def text_lines_come_by_shards(folder: pathlib.Path) -> None:
    from elasticdl.python.data.reader.text_reader import TextDataReader

    path = folder / "data.txt"
    path.write_text("a\nb\nc\n")
    reader = TextDataReader(filename=str(path), records_per_task=2)
    assert reader.create_shards() == [(str(path), 0, 2), (str(path), 2, 1)]
    task = types.SimpleNamespace(shard=types.SimpleNamespace(name=str(path), start=1, end=3))
    assert list(reader.read_records(task)) == ["b\n", "c\n"]


def recordio_is_written_and_read(folder: pathlib.Path) -> None:
    import recordio
    from elasticdl.python.data.reader.recordio_reader import RecordIODataReader

    path = str(folder / "data" / "0")
    os.makedirs(folder / "data")
    writer = recordio.Writer(path)
    for number in range(5):
        writer.write(str(number))
    writer.close()
    assert recordio.Index(path).num_records() == 5
    with recordio.File(path, "r") as file:
        assert (file.count(), file.get(3), list(file)) == (5, b"3", [b"0", b"1", b"2", b"3", b"4"])
        with pytest.raises(IndexError, match="has 5 records; the index 5 is out of range"):
            file.get(5)
        with pytest.raises(RuntimeError, match="open for reading"):
            file.write(b"5")
    reader = RecordIODataReader(data_dir=str(folder / "data"))
    assert reader.create_shards() == {path: (0, 5)}
    assert list(reader.create_shards()) == [(path, 0, 5)]  # as of the last version
    task = types.SimpleNamespace(shard_name=path, start=1, end=3)
    assert list(reader.read_records(task)) == [b"1", b"2"]


def maxcompute_says_what_takes_its_place(unused: pathlib.Path) -> None:
    from elasticdl.python.data.odps_io import ODPSWriter, is_odps_configured
    from elasticdl.python.data.reader.odps_reader import ODPSDataReader

    assert not is_odps_configured()
    with pytest.raises(InputError, match=r"ODPSWriter is not part of Generic Trainer.*pyodps"):
        ODPSWriter("project", "id", "key", "endpoint", "table", columns=["f"], column_types=["double"])
    with pytest.raises(InputError, match=r"ODPSDataReader.*Set the training data to the table's name"):
        ODPSDataReader(table="t")


def statistics_come_from_the_environment(folder: pathlib.Path) -> None:
    from elasticdl_preprocessing.utils import analyzer_utils

    (folder / "words").write_text("A\nB\n\n")
    values = {"_age_min": "1.5", "_age_boundaries": "3,1,3", "_age_distinct_count": "7", "_job_vocab": "/words"}
    old = {"size_max": "9", "size_bkt_boundaries": "2", "size_vocab_path": str(folder / "words"), "_bad_avg": "x"}
    os.environ.update({**values, **old})
    try:
        assert analyzer_utils.get_min("age", 0.0) == 1.5
        assert analyzer_utils.get_max("age", 2.0) == 2.0
        assert analyzer_utils.get_bucket_boundaries("age", []) == [1.0, 3.0]
        assert analyzer_utils.get_distinct_count("age", 0) == 7
        assert analyzer_utils.get_vocabulary("job", []) == "/words"
        assert analyzer_utils.get_max("size", 0.0) == 9.0
        assert analyzer_utils.get_bucket_boundaries("size", []) == [2.0]
        assert analyzer_utils.get_vocabulary("size", []) == ["A", "B"]
        with pytest.raises(ValueError, match="_bad_avg='x' cannot be read"):
            analyzer_utils.get_avg("bad", 0.0)
    finally:
        for name in (*values, *old):
            del os.environ[name]


def model_inputs_are_noted(unused: pathlib.Path) -> None:
    from elasticdl_preprocessing.utils.decorators import declare_model_inputs, model_input_name

    class Model:
        pass

    assert declare_model_inputs("wide", "deep")(Model)._model_inputs == ["wide", "deep"]
    assert model_input_name("wide")(Model)._model_input_names == ["wide"]
    with pytest.raises(ValueError, match="at least one"):
        declare_model_inputs()
