"""A packed module runs as from its original folder, and its archive is named after its content."""

from __future__ import annotations

import io
import pathlib
import shutil
import textwrap
import zipfile

import pytest

from generic_trainer import InputError
from generic_trainer.executors.dialects.loading import loaded
from generic_trainer.executors.modules.source import find_source
from generic_trainer.pipelines.definition.code_archive import CodeArchive, pack


def files(folder: pathlib.Path, sources: dict[str, str]) -> pathlib.Path:
    for name, text in sources.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return folder


def value_of(reference: str, scratch: pathlib.Path) -> object:
    """Loads a module in a separate folder and returns the result of its `value`."""
    with loaded(find_source(reference, str(scratch))) as module:
        return module.value()


def test_siblings_and_packages_are_packed(tmp_path: pathlib.Path) -> None:
    code = files(
        tmp_path / "code",
        {
            "main.py": "import helpers\ndef value():\n    from parts import deep\n    return helpers.ONE + deep.TWO\n",
            "helpers.py": "ONE = 1\n",
            "parts/__init__.py": "",
            "parts/deep.py": "from .deeper import TWO\n",
            "parts/deeper.py": "TWO = 2\n",
            "unused.py": "",
        },
    )
    archive = pack(find_source(str(code / "main.py"), str(tmp_path / "a")))
    reference = archive.upload(str(tmp_path / "store"))
    assert reference == archive.reference(str(tmp_path / "store"))
    shutil.rmtree(code)
    assert value_of(reference, tmp_path / "b") == 3
    with zipfile.ZipFile(archive.path(str(tmp_path / "store"))) as members:
        assert members.namelist() == [
            "helpers.py",
            "main.py",
            *(f"parts/{n}.py" for n in ("__init__", "deep", "deeper")),
        ]


def test_a_module_of_a_package_keeps_its_name(tmp_path: pathlib.Path) -> None:
    code = files(
        tmp_path / "code",
        {
            "project/__init__.py": "",
            "project/constants.py": "ONE = 1\n",
            "project/trainers/__init__.py": "from . import settings\n",
            "project/trainers/settings.py": "",
            "project/trainers/taxi.py": "from ..constants import ONE\nvalue = lambda: (ONE, __name__)\n",
        },
    )
    archive = pack(find_source(str(code / "project" / "trainers" / "taxi.py"), str(tmp_path / "a")))
    assert archive.module == "project.trainers.taxi"
    assert value_of(archive.upload(str(tmp_path / "store")), tmp_path / "b") == (1, "project.trainers.taxi")


def test_a_function_is_still_named(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(files(tmp_path / "code", {"taxi.py": "class TrainConf: ...\n"})))
    archive = pack(find_source("taxi.TrainConf", str(tmp_path / "a")))
    assert archive.module == "taxi.TrainConf"
    assert find_source(archive.upload(str(tmp_path)), str(tmp_path / "b")).function == "TrainConf"


def test_code_from_elsewhere_on_the_path_is_at_the_top(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files(
        tmp_path,
        {"code/main.py": "from shared import ONE\nvalue = lambda: ONE\n", "lib/shared/__init__.py": "ONE = 1\n"},
    )
    with monkeypatch.context() as here:
        here.syspath_prepend(str(tmp_path / "lib"))
        reference = pack(find_source(str(tmp_path / "code" / "main.py"), str(tmp_path / "a"))).upload(str(tmp_path))
    assert value_of(reference, tmp_path / "b") == 1


def test_a_model_zoo_is_also_found_by_its_own_name(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zoo = files(
        tmp_path / "code" / "zoo",
        {"iris/main.py": "from zoo.common.names import ONE\nvalue = lambda: ONE\n", "common/names.py": "ONE = 1\n"},
    )
    with monkeypatch.context() as here:
        for folder in (zoo, zoo.parent):
            here.syspath_prepend(str(folder))
        archive = pack(find_source(str(zoo / "iris" / "main.py"), str(tmp_path / "a")), str(zoo))
    assert archive.module == "iris.main"
    assert value_of(archive.upload(str(tmp_path / "store")), tmp_path / "b") == 1


def test_the_name_changes_only_with_the_code(tmp_path: pathlib.Path) -> None:
    def packed(folder: str, one: int) -> CodeArchive:
        sources = {"main.py": "import helpers\n", "helpers.py": f"ONE = {one}\n", "readme.txt": folder}
        return pack(find_source(str(files(tmp_path / folder, sources) / "main.py"), str(tmp_path)))

    first, same, other = packed("a", 1), packed("b", 1), packed("c", 2)
    assert first.path("gs://bucket/code") == same.path("gs://bucket/code") != other.path("gs://bucket/code")
    assert first.path("gs://bucket/code").startswith("gs://bucket/code/main-")
    with zipfile.ZipFile(io.BytesIO(first.content)) as members:
        assert {member.date_time[0] for member in members.infolist()} == {1980}  # not the day of packing


def test_an_existing_archive_is_not_written_again(tmp_path: pathlib.Path) -> None:
    archive = pack(find_source(str(files(tmp_path, {"main.py": ""}) / "main.py"), str(tmp_path)))
    archive.upload(str(tmp_path))
    path = pathlib.Path(archive.path(str(tmp_path)))
    path.chmod(0o400)
    before = path.stat()
    archive.upload(str(tmp_path))
    assert path.stat().st_mtime_ns == before.st_mtime_ns


def test_a_file_that_cannot_be_imported_is_rejected(tmp_path: pathlib.Path) -> None:
    path = files(tmp_path, {"my-module.py": ""}) / "my-module.py"
    with pytest.raises(InputError, match=r"my-module.py cannot be packed: .*'my-module' is not a module's name"):
        pack(find_source(str(path), str(tmp_path)))


def test_an_unwritable_path_is_reported(tmp_path: pathlib.Path) -> None:
    archive = pack(find_source(str(files(tmp_path, {"main.py": ""}) / "main.py"), str(tmp_path)))
    with pytest.raises(InputError, match="--code-root /dev/null: cannot write there"):
        archive.upload("/dev/null")
