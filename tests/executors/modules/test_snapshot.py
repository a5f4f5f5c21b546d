"""A run keeps its module's source, and a description of its data, to be compared with others later."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable

import pytest

from generic_trainer.executors.checkpoints.data_fingerprint import DataFiles
from generic_trainer.executors.features.data_files.run import description_of
from generic_trainer.executors.modules import snapshot
from generic_trainer.executors.modules.snapshot import keep_source, read_source
from generic_trainer.executors.modules.source import find_source
from generic_trainer.executors.runtime.files.content_digests import ContentDigests


def test_the_module_and_what_it_imports_are_kept_without_secrets(
    module: Callable[..., str], tmp_path: pathlib.Path
) -> None:
    path = module("import helper\nTOKEN = 'hush'\n", helper="X = 'é'\n", unused="Y = 1\n")
    keep_source(find_source(path, str(tmp_path)), str(tmp_path / "run"))
    kept = read_source(str(tmp_path / "run"))
    assert kept == {"trainer_module.py": "import helper\nTOKEN = '***'\n", "helper.py": "X = 'é'\n"}
    # The next run's take their place.
    path = module("Z = 2\n")
    keep_source(find_source(path, str(tmp_path)), str(tmp_path / "run"))
    assert read_source(str(tmp_path / "run")) == {"trainer_module.py": "Z = 2\n"}
    assert read_source(str(tmp_path)) == {}


def test_files_of_other_folders_keep_inside(
    module: Callable[..., str], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "elsewhere.py").write_text("E = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path / "shared"))
    keep_source(find_source(module("import elsewhere\n"), str(tmp_path)), str(tmp_path / "run"))
    assert sorted(read_source(str(tmp_path / "run"))) == ["outside/shared/elsewhere.py", "trainer_module.py"]
    assert sorted(os.listdir(tmp_path / "run")) == ["source"]


def test_of_very_much_the_module_alone_is_kept(
    module: Callable[..., str], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "MAX_BYTES", 20)
    keep_source(find_source(module("import helper\n", helper="X = 1\n" * 3), str(tmp_path)), str(tmp_path / "run"))
    assert read_source(str(tmp_path / "run")) == {"trainer_module.py": "import helper\n"}


def test_data_are_described_by_number_size_and_content(tmp_path: pathlib.Path) -> None:
    def written(folder: str, **files: str) -> dict[str, int | str]:
        for name, text in files.items():
            (tmp_path / folder).mkdir(exist_ok=True)
            (tmp_path / folder / name).write_text(text)
            os.utime(tmp_path / folder / name, (1_800_000_000, 1_800_000_000))
        return described(folder)

    def described(folder: str) -> dict[str, int | str]:
        return description_of(DataFiles.read([f"{tmp_path}/{folder}/*"], ContentDigests(str(tmp_path))))

    first = written("first", a="12345", b="6" * 10_000)
    assert (first["files"], first["bytes"], first["modified"]) == (2, 10_005, "2027-01-15T08:00:00+00:00")
    assert written("moved", a="12345", b="6" * 10_000) == first
    for changed in (
        {"a": "12346", "b": "6" * 10_000},
        {"a": "12345", "b": "6" * 5_000 + "7" + "6" * 4_999},
        {"a": "12345", "c": "6"},
    ):
        folder = f"changed{len(os.listdir(tmp_path))}"
        assert written(folder, **changed)["digest"] != first["digest"]
    assert described("none") == {"files": 0}
