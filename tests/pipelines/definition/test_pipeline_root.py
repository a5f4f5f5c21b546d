"""Where a pipeline's CSV is copied to, and where nothing is written."""

from __future__ import annotations

import pathlib

import pytest

from generic_trainer import InputError
from generic_trainer.executors.training.run_lock import hold_run_lock
from generic_trainer.pipelines.definition.pipeline_root import (
    PLAIN_DATA,
    ROOT_MARKER,
    convert_data_in_root,
    default_root,
)


def test_a_copy_lies_in_a_root_that_is_new_or_a_pipelines_and_nothing_is_written_elsewhere(
    tmp_path: pathlib.Path,
) -> None:
    (tmp_path / "a.csv").write_text("a;b\n1;2\n")
    data = str(tmp_path / "a.csv")
    roots = {
        "new": [],
        "checked": ["generic_trainer_check.json"],
        "killed": [f"{PLAIN_DATA}.part-7"],
        "own": [ROOT_MARKER, "logs"],
    }
    for name, marks in roots.items():
        root = tmp_path / name
        for mark in marks:
            (root / mark).mkdir(parents=True)
        copy = root / PLAIN_DATA / "a.csv"
        said = f"a.csv: fields were separated by semicolons. The pipeline reads a converted copy: {copy}"
        assert convert_data_in_root(data, str(root)) == (str(copy), [said])

    root = tmp_path / "own"
    (tmp_path / "b.csv").write_text("a;b\n3;4\n")
    with hold_run_lock(str(root)):  # a run that may be reading its copy
        assert convert_data_in_root(data, str(root))[0] == str(root / PLAIN_DATA / "a.csv")
        with pytest.raises(InputError, match="another run is active in this folder"):
            convert_data_in_root(str(tmp_path / "b.csv"), str(root))
    assert sorted(path.name for path in (root / PLAIN_DATA).glob("[!.]*")) == ["a.csv"]
    assert not list(root.glob("*.part-*"))
    convert_data_in_root(str(tmp_path / "b.csv"), str(root))
    assert sorted(path.name for path in (root / PLAIN_DATA).glob("[!.]*")) == ["b.csv"]

    (tmp_path / "others" / "thesis").mkdir(parents=True)
    for root in (str(tmp_path / "others"), "gs://bucket/root"):
        assert convert_data_in_root(data, root) == (data, [])
    assert [path.name for path in (tmp_path / "others").iterdir()] == ["thesis"]
    assert convert_data_in_root("gs://bucket/a.csv", str(tmp_path / "new")) == ("gs://bucket/a.csv", [])


def test_a_folder_with_code_is_not_the_default_root(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert default_root() == "pipeline"
    pathlib.Path("pipeline").mkdir()
    pathlib.Path("pipeline", "pipeline.py").write_text("")
    assert default_root() == "pipeline_root"
    pathlib.Path("pipeline", ROOT_MARKER).write_text("")
    assert default_root() == "pipeline"
