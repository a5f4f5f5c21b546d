"""Objects that are registered by entry point are loaded by name."""

from __future__ import annotations

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
