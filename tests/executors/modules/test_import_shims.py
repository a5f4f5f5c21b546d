"""Replacement modules for packages that are not installed."""

from __future__ import annotations

import importlib
import pathlib
import sys
from collections.abc import Iterator

import pytest

from generic_trainer.executors.dialects.elasticdl.shim import constants, names
from generic_trainer.executors.modules.import_shims import hint, publish_shims

LIBRARY = "discontinued_library"


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == LIBRARY]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("folder", "module", "replaced"),
    [
        ("clone", "python/constants.py", True),  # its source tree
        ("site-packages", "python/constants.py", False),
        ("project", "mine/constants.py", False),  # the user's own package of this name
    ],
)
def test_a_source_tree_is_replaced_but_no_installed_package_and_no_other_package(
    folder: str, module: str, replaced: bool, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / folder / LIBRARY / module
    path.parent.mkdir(parents=True)
    path.write_text("Mode = None\n")
    for package in (path.parent, path.parent.parent):
        (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path / folder)

    publish_shims([(f"{LIBRARY}.python.constants", "constants")], beside=names.__name__)

    dotted = f"{LIBRARY}.{module.removesuffix('.py').replace('/', '.')}"
    assert (importlib.import_module(dotted).Mode is constants.Mode) == replaced


@pytest.mark.parametrize("statement", ["import {}.python.master", "from {}.python.constants import Master"])
def test_a_part_that_is_not_provided_is_told_apart_from_a_missing_package(statement: str) -> None:
    publish_shims([(f"{LIBRARY}.python.constants", "constants")], beside=names.__name__)
    with pytest.raises(ImportError) as caught:
        exec(statement.format(LIBRARY))  # noqa: S102
    assert hint(caught.value).startswith(
        f"{LIBRARY} is not installed. Generic Trainer provides what training code takes"
    )
    with pytest.raises(ImportError) as caught:
        exec(statement.format("another_library"))  # noqa: S102
    assert hint(caught.value) == ""
