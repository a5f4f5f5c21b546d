"""Objects that are registered by entry point are loaded by name."""

from __future__ import annotations

import pathlib

import pytest

from generic_trainer import InputError
from generic_trainer.executors import plugins
from generic_trainer.executors.engines.local import LocalEngine


def test_an_object_is_loaded_by_its_name() -> None:
    assert plugins.load_one("generic_trainer.engines", "local") is LocalEngine


def test_a_name_that_no_package_registers_is_an_error_with_the_known_ones() -> None:
    message = r"No installed package registers 'locla' in generic_trainer\.engines; there are .*\blocal\b.*'local'\?"
    with pytest.raises(InputError, match=message):
        plugins.load_one("generic_trainer.engines", "locla")
    with pytest.raises(InputError, match="there are none"):
        plugins.load_one("generic_trainer.no_such_group", "local")


def test_two_packages_with_the_same_name_are_an_error_that_names_both(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    information = tmp_path / "queue_engine-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: queue-engine\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[generic_trainer.engines]\nlocal = queue_engine:LocalQueue\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        InputError, match=r"(?=.*package generic-trainer)(?=.*queue_engine:LocalQueue of the package queue-engine)"
    ):
        plugins.load_one("generic_trainer.engines", "local")
