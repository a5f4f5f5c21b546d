"""Every way to name a module, with every way to import a neighbour; and nothing of it stays behind."""

from __future__ import annotations

import os
import pathlib
import shutil
import sys
import tempfile
import traceback
import zipfile
from collections.abc import Iterator

import pytest

from generic_trainer import InputError, ModuleError
from generic_trainer.executors.modules.loader import loaded
from generic_trainer.executors.modules.source import find_source

IMPORTS = {
    "sibling at the top": "import helpers\n\ndef run_fn(fn_args):\n    return helpers.ANSWER\n",
    "sibling in a function": "def run_fn(fn_args):\n    import helpers\n    return helpers.ANSWER\n",
    "relative": "from . import helpers\n\ndef run_fn(fn_args):\n    return helpers.ANSWER\n",
    "sub-package": "from layers.dense import ANSWER\n\ndef run_fn(fn_args):\n    return ANSWER\n",
}
WAYS = ("file", "dotted module", "module.function", "archive")


def make_code(folder: pathlib.Path, source: str, answer: int = 42, name: str = "user_trainer") -> pathlib.Path:
    (folder / "layers").mkdir(parents=True)
    (folder / f"{name}.py").write_text(source)
    (folder / "helpers.py").write_text(f"from constants import ANSWER\n\nVALUES = [{answer}]\n")
    (folder / "constants.py").write_text(f"ANSWER = {answer}\n")
    (folder / "layers" / "__init__.py").write_text("")
    (folder / "layers" / "dense.py").write_text(f"ANSWER = {answer}\n")
    return folder


def pack(folder: pathlib.Path, archive: pathlib.Path) -> str:
    with zipfile.ZipFile(archive, "w") as members:
        for file in sorted(folder.rglob("*.py")):
            members.write(file, file.relative_to(folder))
    return str(archive)


@pytest.fixture
def scratch() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        yield folder


def run(reference: str, scratch: str) -> object:
    source = find_source(reference, scratch)
    with loaded(source) as module:
        return getattr(module, source.function or "run_fn")(None)


@pytest.mark.parametrize("kind", IMPORTS)
@pytest.mark.parametrize("way", WAYS)
def test_neighbours_import_in_every_form(
    way: str, kind: str, tmp_path: pathlib.Path, scratch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = make_code(tmp_path / "code", IMPORTS[kind])
    if way == "file":
        reference = str(code / "user_trainer.py")
    elif way == "archive":
        reference = f"user_trainer@{pack(code, tmp_path / 'code.zip')}"
    else:
        monkeypatch.syspath_prepend(str(code))
        reference = "user_trainer" if way == "dotted module" else "user_trainer.run_fn"
    assert run(reference, scratch) == 42


@pytest.mark.parametrize("kind", IMPORTS)
def test_neighbours_import_in_a_package(
    kind: str, tmp_path: pathlib.Path, scratch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = make_code(tmp_path / "project", IMPORTS[kind])
    (code / "__init__.py").write_text("")
    assert run(str(code / "user_trainer.py"), scratch) == 42
    monkeypatch.syspath_prepend(str(tmp_path))
    assert run("project.user_trainer", scratch) == 42
    assert run("project.user_trainer.run_fn", scratch) == 42
    assert run(f"project.user_trainer@{pack(tmp_path, tmp_path / 'all.zip')}", scratch) == 42


def test_imports_from_the_package_above(tmp_path: pathlib.Path, scratch: str) -> None:
    source = "from ..shared import ANSWER\n\ndef run_fn(fn_args):\n    return ANSWER\n"
    for folder in ("project", "project/trainers"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").write_text("")
    (tmp_path / "project" / "shared.py").write_text("ANSWER = 5\n")
    (tmp_path / "project" / "trainers" / "taxi.py").write_text(source)
    assert run(str(tmp_path / "project" / "trainers" / "taxi.py"), scratch) == 5


def test_two_runs_do_not_see_each_other(tmp_path: pathlib.Path, scratch: str) -> None:
    before, path = set(sys.modules), list(sys.path)
    for kind, source in IMPORTS.items():
        for answer in (1, 2):
            code = make_code(tmp_path / f"{kind} {answer}", source, answer)
            assert run(str(code / "user_trainer.py"), scratch) == answer
    assert sys.path == path
    left = set(sys.modules) - before
    assert not [name for name in left if name.split(".")[0] in ("helpers", "constants", "layers", "user_trainer")]
    assert not [name for name in left if name.startswith("user_code_")]


@pytest.mark.parametrize("kind", IMPORTS)
def test_an_edit_within_the_same_second_is_seen(
    kind: str, tmp_path: pathlib.Path, scratch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    make_code(tmp_path, IMPORTS[kind], answer=1)
    for answer in (1, 2):  # of one size, so that Python would take the first one's byte code for the second
        for file in tmp_path.rglob("*.py"):
            file.write_text(file.read_text().replace("1", f"{answer}"))
            os.utime(file, (1_700_000_000, 1_700_000_000))
        assert run(str(tmp_path / "user_trainer.py"), scratch) == answer
    assert not list(tmp_path.rglob("__pycache__"))


def test_a_module_of_the_hosts_is_back_afterwards(
    tmp_path: pathlib.Path, scratch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = tmp_path / "host"
    host.mkdir()
    (host / "helpers.py").write_text("WHOSE = 'host'\n")
    monkeypatch.syspath_prepend(str(host))
    import helpers  # type: ignore[import-not-found]

    try:
        code = make_code(tmp_path / "code", IMPORTS["sibling at the top"])
        assert run(str(code / "user_trainer.py"), scratch) == 42
        assert sys.modules["helpers"] is helpers
    finally:
        del sys.modules["helpers"]


def test_an_installed_package_imported_during_the_run_stays(tmp_path: pathlib.Path, scratch: str) -> None:
    # The environment may well lie inside the user's project.
    project = tmp_path / "project"
    installed = project / ".venv" / "lib" / "site-packages"
    installed.mkdir(parents=True)
    (installed / "some_library.py").write_text("VALUE = 1\n")
    source = f"import sys\nsys.path.append({str(installed)!r})\nimport some_library\ndef run_fn(fn_args): return 1\n"
    (project / "user_trainer.py").write_text(source)
    try:
        assert run(str(project / "user_trainer.py"), scratch) == 1
        assert "some_library" in sys.modules
    finally:
        sys.modules.pop("some_library", None)
        sys.path.remove(str(installed))


def test_a_module_named_like_the_standard_librarys_hides_nothing(tmp_path: pathlib.Path, scratch: str) -> None:
    import code as standard

    (tmp_path / "code.py").write_text("def run_fn(fn_args):\n    import code\n    return code\n")
    assert run(str(tmp_path / "code.py"), scratch) is standard


@pytest.mark.parametrize("name", ["zoo/wdl.py", "zoo/some_library/some_library.py"])
def test_folders_of_a_zoo_do_not_hide_installed_packages(
    name: str, tmp_path: pathlib.Path, scratch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "site-packages" / "some_library"
    for folder in (installed, tmp_path / "zoo" / "some_library"):
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text("")
    (installed / "models.py").write_text("WDL = 1\n")
    module = tmp_path / name
    module.write_text("from some_library.models import WDL\nimport helpers\nPAIR = WDL, helpers.ANSWER\n")
    (module.parent / "helpers.py").write_text("ANSWER = 42\n")
    for folder in ("site-packages", "zoo"):  # the zoo is in front
        monkeypatch.syspath_prepend(tmp_path / folder)

    with loaded(find_source(str(module), scratch), installed_first=True) as zoo_module:
        assert zoo_module.PAIR == (1, 42)
    monkeypatch.delitem(sys.modules, "some_library.models")
    monkeypatch.delitem(sys.modules, "some_library")
    with pytest.raises(ModuleNotFoundError, match=r"some_library"), loaded(find_source(str(module), scratch)):
        pass


def test_a_sibling_that_imports_the_module_back_gets_the_same_one(tmp_path: pathlib.Path, scratch: str) -> None:
    (tmp_path / "main_module.py").write_text(
        "STATE = []\nimport other\ndef run_fn(fn_args):\n    other.add()\n    return STATE\n"
    )
    (tmp_path / "other.py").write_text("import main_module\ndef add(): main_module.STATE.append(1)\n")
    assert run(str(tmp_path / "main_module.py"), scratch) == [1]


@pytest.mark.parametrize("way", ["file", "relative", "dotted module"])
def test_tracebacks_name_the_users_own_file(
    way: str, tmp_path: pathlib.Path, scratch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "from . import helpers\n" if way == "relative" else "import helpers\n"
    code = make_code(tmp_path / "code", source + "def run_fn(fn_args):\n    raise ValueError('mine')\n")
    monkeypatch.syspath_prepend(str(code))
    reference = "user_trainer" if way == "dotted module" else str(code / "user_trainer.py")
    with pytest.raises(ValueError, match="mine") as caught:
        run(reference, scratch)
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert frames[-1].filename == str(code / "user_trainer.py")
    assert frames[-1].line == "raise ValueError('mine')"


def test_errors_at_import_keep_type_and_line(tmp_path: pathlib.Path, scratch: str) -> None:
    (tmp_path / "broken.py").write_text("import os\n\ndef run_fn(fn_args:\n    pass\n")
    with pytest.raises(SyntaxError) as caught:
        run(str(tmp_path / "broken.py"), scratch)
    assert caught.value.filename == str(tmp_path / "broken.py")
    assert caught.value.lineno == 3
    (tmp_path / "raising.py").write_text("raise KeyError('at import')\n")
    with pytest.raises(KeyError, match="at import"):
        run(str(tmp_path / "raising.py"), scratch)


# Fingerprints


def fingerprint(reference: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        return find_source(reference, folder).fingerprint


@pytest.mark.parametrize("kind", IMPORTS)
def test_the_fingerprint_covers_the_helpers(kind: str, tmp_path: pathlib.Path) -> None:
    code = make_code(tmp_path / "code", IMPORTS[kind])
    reference = str(code / "user_trainer.py")
    before = fingerprint(reference)
    assert fingerprint(reference) == before
    (code / "unrelated.py").write_text("x = 1\n")
    assert fingerprint(reference) == before
    helper = code / ("layers/dense.py" if kind == "sub-package" else "constants.py")  # helpers imports constants
    helper.write_text("ANSWER = 43\n")
    assert fingerprint(reference) != before


def test_the_fingerprint_covers_the_packages_around(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    package = tmp_path / "project" / "trainers"
    package.mkdir(parents=True)
    for file in (tmp_path / "project" / "__init__.py", package / "__init__.py", package / "taxi.py"):
        file.write_text("")
    before = fingerprint("project.trainers.taxi")
    (package / "__init__.py").write_text("from . import settings\n")  # runs when taxi is imported
    changed = fingerprint("project.trainers.taxi")
    (package / "settings.py").write_text("UNITS = 8\n")
    assert len({before, changed, fingerprint("project.trainers.taxi")}) == 3


def test_folders_without_init_import_at_any_depth(tmp_path: pathlib.Path, scratch: str) -> None:
    (tmp_path / "zoo" / "common").mkdir(parents=True)
    (tmp_path / "zoo" / "common" / "names.py").write_text("ANSWER = 7\n")
    (tmp_path / "deep.py").write_text("import zoo.common.names as n\n\ndef run_fn(fn_args):\n    return n.ANSWER\n")
    assert run(str(tmp_path / "deep.py"), scratch) == 7
    assert not [name for name in sys.modules if name.partition(".")[0] == "zoo"]


def test_the_fingerprint_does_not_depend_on_the_folder(tmp_path: pathlib.Path) -> None:
    code = make_code(tmp_path / "code", IMPORTS["relative"])
    shutil.copytree(code, tmp_path / "elsewhere")
    assert fingerprint(str(code / "user_trainer.py")) == fingerprint(str(tmp_path / "elsewhere" / "user_trainer.py"))


def test_the_fingerprint_of_an_archive_is_that_of_its_files(tmp_path: pathlib.Path) -> None:
    code = make_code(tmp_path / "code", IMPORTS["sibling at the top"])
    archive = pack(code, tmp_path / "code.zip")
    assert fingerprint(f"user_trainer@{archive}") == fingerprint(str(code / "user_trainer.py"))


def test_code_elsewhere_on_the_path_counts_but_installed_packages_do_not(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library, code = tmp_path / "library", tmp_path / "code"
    library.mkdir()
    code.mkdir()
    (library / "company_layers.py").write_text("SIZE = 1\n")
    (code / "trainer.py").write_text("import numpy\nimport tensorflow\nimport company_layers\ndef run_fn(a): pass\n")
    monkeypatch.syspath_prepend(str(library))
    source = find_source(str(code / "trainer.py"), str(tmp_path))
    assert [os.path.basename(file) for file in source.files] == ["trainer.py", "company_layers.py"]


def test_finding_a_module_runs_none_of_it(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "__init__.py").write_text("raise RuntimeError('ran')\n")
    (tmp_path / "project" / "trainer.py").write_text("raise RuntimeError('ran')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert find_source("project.trainer.train_it", str(tmp_path)).function == "train_it"
    assert find_source(str(tmp_path / "project" / "trainer.py"), str(tmp_path)).path.endswith("trainer.py")


def test_a_folders_init_runs_only_for_a_module_that_is_relative_to_it(tmp_path: pathlib.Path, scratch: str) -> None:
    code = make_code(tmp_path / "code", IMPORTS["sub-package"])
    (code / "__init__.py").write_text("raise RuntimeError('ran')\n")
    (code / "layers" / "__init__.py").write_text("from . import dense\n")
    assert run(str(code / "user_trainer.py"), scratch) == 42


# Remote files, through TensorFlow's in-memory file system


def test_a_remote_module_comes_with_its_neighbours(tmp_path: pathlib.Path, scratch: str) -> None:
    import tensorflow as tf

    code = make_code(tmp_path / "code", IMPORTS["sibling at the top"] + "    from layers.dense import ANSWER\n")
    (code / "elsewhere").mkdir()
    (code / "elsewhere" / "unused.py").write_text("")
    for file in code.rglob("*.py"):
        target = f"ram://code/{file.relative_to(code)}"
        tf.io.gfile.makedirs(os.path.dirname(target))
        tf.io.gfile.copy(str(file), target, overwrite=True)
    assert run("ram://code/user_trainer.py", scratch) == 42
    assert not list(pathlib.Path(scratch).rglob("unused.py"))
    tf.io.gfile.copy(pack(code, tmp_path / "code.zip"), "ram://archives/code.zip", overwrite=True)
    assert run("user_trainer@ram://archives/code.zip", scratch) == 42


# What cannot be found


def test_a_missing_file_error_names_the_closest_match(tmp_path: pathlib.Path, scratch: str) -> None:
    (tmp_path / "taxi_keras.py").write_text("")
    with pytest.raises(ModuleError, match=r"taxi_kears.py does not exist. Did you mean 'taxi_keras.py'\?"):
        find_source(str(tmp_path / "taxi_kears.py"), scratch)
    with pytest.raises(ModuleError, match="is a folder"):
        find_source(f"{tmp_path}/", scratch)
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(ModuleError, match="not a Python file"):
        find_source(str(tmp_path / "notes.txt"), scratch)


def test_a_missing_dotted_module_error_names_the_missing_part(
    tmp_path: pathlib.Path, scratch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "__init__.py").write_text("")
    (tmp_path / "project" / "trainers").mkdir()
    (tmp_path / "project" / "trainers" / "taxi.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleError, match=r"no 'trainer' in project. Did you mean 'trainers'\?"):
        find_source("project.trainer.taxi", scratch)
    with pytest.raises(ModuleError, match=r"no 'no_such_package' in the folders on sys\.path"):
        find_source("no_such_package.trainer", scratch)
    with pytest.raises(ModuleError, match="not a module's name"):
        find_source("not-a-name", scratch)


def test_a_bad_archive_is_refused(tmp_path: pathlib.Path, scratch: str) -> None:
    (tmp_path / "broken.zip").write_bytes(b"PK not a zip")
    with pytest.raises(InputError, match=r"broken.zip is not a readable zip file"):
        find_source(f"trainer@{tmp_path}/broken.zip", scratch)
    with zipfile.ZipFile(tmp_path / "escaping.zip", "w") as members:
        members.writestr("trainer.py", "")
        members.writestr("../outside.py", "")
    with pytest.raises(InputError, match=r"a member with a path outside of the archive: '../outside.py'"):
        find_source(f"trainer@{tmp_path}/escaping.zip", scratch)
    assert not list(pathlib.Path(scratch).rglob("outside.py"))
    with pytest.raises(ModuleError, match=r"absent.zip does not exist"):
        find_source("trainer@absent.zip", scratch)
    with pytest.raises(ModuleError, match="name the module in the archive"):
        find_source(f"{tmp_path}/escaping.zip", scratch)
