"""scripts/size.py counts what imports reach, and fails for a figure over its limit."""

from __future__ import annotations

import importlib.util
import pathlib
import sys
import textwrap
from types import ModuleType

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
SOURCES = {
    "setup.cfg": "[options]\npackages =\n    generic_trainer\n    generic_trainer.inner\n",
    "__init__.py": "",
    "entry.py": """
        from typing import TYPE_CHECKING
        import json
        from . import top
        if TYPE_CHECKING:
            from .inner import typed
        def late():
            from .inner.late import function
    """,
    "top.py": "import generic_trainer.entry",
    "inner/__init__.py": "from .. import of_package",
    "inner/late.py": "\n",
    "inner/typed.py": "",
    "of_package.py": "",
    "other.py": "",
}


@pytest.fixture(scope="module")
def size() -> ModuleType:
    if sys.version_info < (3, 11):
        pytest.skip("tomllib comes with Python 3.11")
    spec = importlib.util.spec_from_file_location("size", REPOSITORY / "scripts" / "size.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_closure_has_what_running_code_imports(size: ModuleType, tmp_path: pathlib.Path) -> None:
    for name, text in SOURCES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(textwrap.dedent(text))
    sources = size.Sources(tmp_path)
    assert size.wrong_imports(sources, {}) == ["entry.py and top.py import each other"]
    reached = {name.removeprefix("generic_trainer.") for name in sources.closure("generic_trainer.entry")}
    assert reached == {"entry", "top", "inner.late", "of_package"}
    assert sources.own_imports("generic_trainer.entry") == {"generic_trainer.top", "generic_trainer.inner.late"}


def test_a_figure_over_its_limit_is_named(size: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert size.compare({"lines": 3, "files": 2, "new": 1}, {"lines": 3, "files": 1}) == [
        "new has no limit",
        "files is 2, more than its limit 1",
    ]
    assert size.compare({"lines": 2}, {"lines": 3}) == []
    assert "lower the limit" in capsys.readouterr().out


def test_a_pattern_of_the_kernel_matches_files(size: ModuleType, tmp_path: pathlib.Path) -> None:
    (tmp_path / "run.py").touch()
    assert size.kernel_files(tmp_path, ["*.py"]) == {tmp_path / "run.py"}
    with pytest.raises(SystemExit, match=r"no file matches gone\.py"):
        size.kernel_files(tmp_path, ["run.py", "gone.py"])


def test_a_file_of_the_kernel_that_its_own_code_does_not_reach_counts(size: ModuleType) -> None:
    assert size.figures(REPOSITORY, ["executors/training/run.py"])["kernel_spare"] == 0
    assert size.figures(REPOSITORY, ["executors/training/run.py", "executors/reporting/*.py"])["kernel_spare"] > 1


def test_a_file_with_many_imports_is_named_unless_it_is_a_root(size: ModuleType, tmp_path: pathlib.Path) -> None:
    modules = [f"part_{number}" for number in range(13)]
    for name in modules:
        (tmp_path / f"{name}.py").touch()
    (tmp_path / "setup.cfg").write_text("[options]\npackages =\n    generic_trainer\n")
    (tmp_path / "wide.py").write_text(f"from . import {', '.join(modules)}\n")
    sources = size.Sources(tmp_path)
    assert size.wrong_imports(sources, {"wide.py": 13}) == []
    assert size.wrong_imports(sources, {}) == ["wide.py imports 13 modules of the package"]
    [wrong] = size.wrong_imports(sources, {"wide.py": 14})
    assert wrong == "wide.py imports 13 modules, and its entry in `roots` is 14"
