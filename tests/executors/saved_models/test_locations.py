"""A base model is found in every layout that a TFX release has written, and JSON files are read with care."""

from __future__ import annotations

import pathlib

import pytest
import tensorflow as tf
from ml_metadata.proto import metadata_store_pb2
from tfx.types import standard_artifacts
from tfx.utils import path_utils

from generic_trainer import InputError
from generic_trainer.executors.runtime.files.artifact_files import read_json_object
from generic_trainer.executors.runtime.files.artifact_layout import latest
from generic_trainer.executors.saved_models.base_model import base_model_path


def save_model(folder: pathlib.Path) -> str:
    tf.saved_model.save(tf.Module(), str(folder))
    return str(folder)


def found_by_tfx(uri: pathlib.Path, old: bool = False) -> str:
    """Returns where TFX looks for the model of an artifact, of a release before 0.29 if `old`."""
    model = standard_artifacts.Model()
    model.uri = str(uri)
    if old:
        model.mlmd_artifact.state = metadata_store_pb2.Artifact.LIVE
    return path_utils.serving_model_path(model.uri, path_utils.is_old_model_artifact(model))


def test_a_model_right_in_format_serving(tmp_path: pathlib.Path) -> None:
    saved = save_model(tmp_path / "Format-Serving")

    assert base_model_path(str(tmp_path)) == saved == found_by_tfx(tmp_path)


def test_a_model_as_estimators_export_it(tmp_path: pathlib.Path) -> None:
    saved = save_model(tmp_path / "Format-Serving" / "export" / "taxi" / "1700000000")

    assert base_model_path(str(tmp_path)) == saved == found_by_tfx(tmp_path)


def test_the_newest_of_several_exports(tmp_path: pathlib.Path) -> None:
    exports = tmp_path / "Format-Serving" / "export"
    save_model(exports / "latest" / "1700000005")
    newest = save_model(exports / "best" / "1700000010")
    save_model(exports / "best" / "999999999")

    assert base_model_path(str(tmp_path)) == newest


def test_unfinished_exports_are_skipped(tmp_path: pathlib.Path) -> None:
    exports = tmp_path / "Format-Serving" / "export" / "best"
    whole = save_model(exports / "1700000010")
    save_model(exports / "temp-1700000020")
    (exports / "1700000030").mkdir()

    assert base_model_path(str(tmp_path)) == whole


def test_a_model_in_serving_model_dir(tmp_path: pathlib.Path) -> None:
    saved = save_model(tmp_path / "serving_model_dir")

    assert base_model_path(str(tmp_path)) == saved == found_by_tfx(tmp_path, old=True)


def test_an_export_in_serving_model_dir(tmp_path: pathlib.Path) -> None:
    saved = save_model(tmp_path / "serving_model_dir" / "export" / "taxi" / "1500000000")

    assert base_model_path(str(tmp_path)) == saved == found_by_tfx(tmp_path, old=True)


def test_the_newest_numbered_folder_with_a_model(tmp_path: pathlib.Path) -> None:
    save_model(tmp_path / "9" / "Format-Serving")
    newest = save_model(tmp_path / "10" / "Format-Serving")
    (tmp_path / "11" / "Format-Serving").mkdir(parents=True)

    assert base_model_path(str(tmp_path)) == newest


def test_a_model_right_at_the_uri(tmp_path: pathlib.Path) -> None:
    saved = save_model(tmp_path / "imported")

    assert base_model_path(saved) == saved


def test_an_empty_format_serving_does_not_hide_a_model_beside_it(tmp_path: pathlib.Path) -> None:
    (tmp_path / "Format-Serving").mkdir()
    saved = save_model(tmp_path / "serving_model_dir")

    assert base_model_path(str(tmp_path)) == saved


def test_a_missing_model_is_an_error_that_names_the_searched_folders(tmp_path: pathlib.Path) -> None:
    (tmp_path / "Format-Serving" / "export" / "best" / "1700000030").mkdir(parents=True)

    with pytest.raises(InputError, match=r"no SavedModel in Format-Serving, serving_model_dir, or") as caught:
        base_model_path(str(tmp_path))

    assert str(tmp_path) in str(caught.value)


def test_a_json_object_is_read(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "best.json"
    path.write_text('{"rate": 0.1, "name": "π"}', encoding="utf-8")

    assert read_json_object(str(path), "hyperparameters") == {"rate": 0.1, "name": "π"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "does not exist"),
        (b"{rate: 1}", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[1]", "must hold a JSON object, not a list"),
    ],
)
def test_other_files_are_rejected_by_name(tmp_path: pathlib.Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "best.json"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(InputError, match=said) as caught:
        read_json_object(str(path), "hyperparameters")

    assert f"hyperparameters {path}" in str(caught.value)


def test_latest_means_the_folder_with_the_highest_number(tmp_path: pathlib.Path) -> None:
    graphs = tmp_path / "transform_graph"
    for number in ("9", "10", "old"):
        (graphs / number / "metadata").mkdir(parents=True)
    assert latest(f"{graphs}/latest") == f"{graphs}/10"
    assert latest(f"{graphs}/latest/metadata") == f"{graphs}/10/metadata"
    others = [f"{graphs}/9", f"{graphs}/9/latest", f"{tmp_path}/nowhere/latest", f"{graphs}/latest_one"]
    assert [latest(path) for path in others] == others
    (graphs / "latest").mkdir()
    assert latest(f"{graphs}/latest") == f"{graphs}/latest"
