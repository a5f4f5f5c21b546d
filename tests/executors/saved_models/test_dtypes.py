"""Outputs and variables of every dtype that TensorFlow knows go through the check, the record and `predict`."""

from __future__ import annotations

import csv
import json
import math
import pathlib
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from tensorflow.core.framework import types_pb2

from generic_trainer import InputError, ModelCheckError, check_saved_model
from generic_trainer.executors.monitoring.run_record import RunRecord, read
from generic_trainer.executors.reporting.build import report_of
from generic_trainer.executors.reporting.page import html_of
from generic_trainer.executors.saved_models.prediction.predict import predict
from generic_trainer.executors.saved_models.prediction.request import PredictionRequest
from generic_trainer.executors.saved_models.tensor_values import all_finite, excerpt, plain_array

_REFERENCES = 100  # numbers of the dtypes of references begin here
DTYPES = [tf.dtypes.as_dtype(number) for number in types_pb2.DataType.values() if 0 < number < _REFERENCES]
UNREADABLE = [dtype for dtype in DTYPES if dtype in (tf.variant, tf.resource)]
READABLE = [dtype for dtype in DTYPES if dtype not in UNREADABLE]
COMPLEX = [dtype for dtype in DTYPES if dtype.is_complex]
FLOATS = [dtype for dtype in DTYPES if dtype.is_floating or dtype.is_complex]
TEXTS = [b"caf\xc3\xa9", b"\xff\x00\xed\xa0\x80", b"a\0b"]


def array_of(dtype: tf.DType, values: list[object]) -> np.ndarray:
    """Returns an array of a dtype; the values of quantized dtypes are in a field of NumPy's dtype."""
    array = np.zeros(len(values), dtype.as_numpy_dtype)
    if array.dtype.names:
        array[array.dtype.names[0]] = values
    else:
        array[:] = values
    return array


def nonfinite(dtype: tf.DType) -> list[tf.Tensor]:
    """Returns tensors with each kind of NaN and infinity that a dtype has."""
    odd: list[complex] = [math.nan, math.inf, -math.inf]
    if dtype.is_complex:
        odd += [complex(1, value) for value in (math.nan, math.inf)]
    arrays = [array_of(dtype, [0, value]) for value in odd]
    return [tf.constant(array, dtype) for array in arrays if not np.isfinite(array.astype(np.complex128)).all()]


def tensor_of(dtype: tf.DType) -> tf.Tensor:
    if dtype == tf.variant:
        return tf.raw_ops.EmptyTensorList(element_shape=tf.constant(-1), max_num_elements=2, element_dtype=tf.float32)
    if dtype == tf.resource:
        return tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[])
    values = TEXTS[:2] if dtype == tf.string else [0, 1]
    return tf.constant(values) if dtype == tf.string else tf.constant(array_of(dtype, values), dtype)


class Outputs(tf.Module):
    """A signature with an output for each dtype, and for each kind of composite tensor."""

    @tf.function(input_signature=[tf.TensorSpec([2], tf.float32, name="x")])
    def readable(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        outputs: dict[str, Any] = {f"of_{dtype.name}": tensor_of(dtype) for dtype in READABLE}
        ragged = tf.RaggedTensor.from_row_splits(x, [0, 0, 2])
        return outputs | {
            "ragged": ragged,
            "nested": tf.RaggedTensor.from_row_splits(ragged, [0, 1, 2]),
            "sparse": tf.SparseTensor([[1, 2]], [b"a"], [2, 3]),
            "empty": tf.zeros([2, 0]),
            "extreme": tf.constant([-(2**63), 2**63 - 1], tf.int64),
        }

    @tf.function(input_signature=[tf.TensorSpec([2], tf.float32, name="x")])
    def all(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        outputs = {f"of_{dtype.name}": tensor_of(dtype) for dtype in UNREADABLE}
        return self.readable(x) | outputs | {"scalar": tf.constant(1.5), "huge": tf.zeros([1 << 12, 1 << 12], tf.int8)}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder, module = str(tmp_path_factory.mktemp("model")), Outputs()
    tf.saved_model.save(module, folder, signatures={"serving_default": module.all, "readable": module.readable})
    return folder


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    path.write_text("x\n0.5\n0.25\n")
    return str(path)


def test_all_outputs_are_checked_recorded_and_reported(model: str, tmp_path: pathlib.Path) -> None:
    report = check_saved_model(model, parts={"evaluation": {}})
    unreadable = report.checks.pop("finite")
    assert unreadable.startswith("is inconclusive: its output of_")
    assert "has no readable values" in unreadable
    assert report.checks.pop("batches") == "skipped: the signature takes a fixed number of examples"
    assert set(report.checks.values()) == {"passed"}
    assert set(report.answer) == set(report.signatures["serving_default"]["outputs"])
    for dtype in DTYPES:
        assert len(report.answer[f"of_{dtype.name}"]) in (1, 2)
    assert report.answer["of_complex64"] == ["0+0j", "1+0j"]
    assert report.answer["of_bfloat16"] == report.answer["of_float8_e5m2"] == [0.0, 1.0]
    assert report.answer["of_string"] == ["café", "5 bytes"]
    assert report.answer["extreme"] == [-(2**63), 2**63 - 1]
    assert (report.answer["empty"], report.answer["scalar"], report.answer["ragged"]) == ([], [1.5], [0.0, 0.0])
    assert (report.answer["sparse"], report.answer["huge"]) == (["a"], [0] * 10)
    assert report.signatures["serving_default"]["outputs"]["ragged"].startswith("RaggedTensor of float32")
    with RunRecord(check=vars(report)).written_to(str(tmp_path)):
        pass
    page = html_of(report_of(str(tmp_path), read(str(tmp_path))))
    assert all(f"of_{dtype.name}" in page for dtype in DTYPES)


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet", "tfrecord"])
def test_all_readable_outputs_are_predicted(model: str, rows: str, ending: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / f"predictions.{ending}"
    request = PredictionRequest.of(model, [rows], str(path), signature="readable")
    if ending == "tfrecord":
        with pytest.raises(InputError, match=r"output 'nested' has rows of nested lists.*\.jsonl"):
            predict(request)
        return
    assert predict(request).count == 2
    if ending == "jsonl":
        last = [json.loads(line) for line in path.read_text().splitlines()][1]
        assert all(last[f"of_{dtype.name}"] == 1 for dtype in READABLE if dtype not in (*COMPLEX, tf.string))
        assert all(last[f"of_{dtype.name}"] == [1.0, 0.0] for dtype in COMPLEX)
        assert (last["of_string"], last["ragged"], last["nested"]) == ({"b64": "/wDtoIA="}, [0.5, 0.25], [[0.5, 0.25]])
        assert (last["sparse"], last["empty"], last["extreme"]) == (["", "", "a"], [], 2**63 - 1)
    elif ending == "csv":
        last = list(csv.DictReader(path.open()))[1]
        assert (last["of_complex64_0"], last["of_complex64_1"]) == ("1.0", "0.0")
        assert (last["ragged"], last["of_float8_e4m3fn"], last["of_qint8"]) == ("[0.5, 0.25]", "1.0", "1")
    else:
        last = pq.read_table(path).to_pylist()[1]
        assert (last["of_complex64"], last["of_uint64"], last["of_int4"]) == ([1.0, 0.0], 1, 1)


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_an_output_without_values_is_an_error_that_names_it(
    model: str, rows: str, ending: str, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(InputError, match=r"output 'of_(variant|resource)' of the signature 'serving_default'.*dtype"):
        predict(PredictionRequest.of(model, [rows], str(tmp_path / f"predictions.{ending}")))


@pytest.mark.parametrize("dtype", READABLE, ids=lambda dtype: dtype.name)
def test_nan_and_infinity_of_every_dtype_are_detected(dtype: tf.DType) -> None:
    assert all_finite(tensor_of(dtype))
    if dtype.name in ("float32", "bfloat16", "float8_e5m2", "float8_e4m3fn", "complex128"):
        assert nonfinite(dtype)
    for tensor in nonfinite(dtype) if dtype in FLOATS else ():
        assert not all_finite(tensor)
        assert not all_finite(tf.RaggedTensor.from_row_splits(tensor, [0, 2]))
        assert json.dumps(excerpt(tensor), allow_nan=False)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: dtype.name)
def test_a_variable_with_nan_fails_the_check(dtype: tf.DType, tmp_path: pathlib.Path) -> None:
    class Variables(tf.Module):
        def __init__(self, values: tf.Tensor) -> None:
            super().__init__()
            self.weight = tf.Variable(values, name="weight")

        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
        def serve(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
            return {"y": x, "weight": self.weight.read_value()}

    if not (tensors := nonfinite(dtype)):
        pytest.skip(f"{dtype.name} has neither NaN nor infinity")
    try:
        module = Variables(tensors[-1])
    except tf.errors.InvalidArgumentError:
        pytest.skip(f"TensorFlow has no variables of {dtype.name} on a CPU")
    tf.saved_model.save(module, str(tmp_path), signatures=module.serve)
    with pytest.raises(ModelCheckError, match=r"'finite': its variable weight.* contains NaN or infinity"):
        check_saved_model(str(tmp_path))


def test_a_nan_after_the_first_chunk_of_a_huge_tensor_is_detected() -> None:
    values = np.zeros(3_000_001, np.float16)
    values[-1] = math.nan
    assert not all_finite(tf.constant(values))
    assert excerpt(tf.constant(values)) == [0.0] * 10


def test_a_plain_array_of_a_complex_matrix_has_pairs() -> None:
    assert plain_array(tf.constant([[1 + 2j], [3 - 1j]], tf.complex128)).tolist() == [[[1.0, 2.0]], [[3.0, -1.0]]]
