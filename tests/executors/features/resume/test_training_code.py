"""Which changes of a module's code a training depends on, and which only what follows it."""

from __future__ import annotations

import importlib.util
import pathlib
import textwrap
from collections.abc import Callable

import pytest

from generic_trainer.executors.features.resume.training_code import TrainingCode

MODULE = """
    import json
    import helper
    from helper import exported, features

    RATE = 0.1

    class Model:
        def units(self):
            return helper.units()

    def serve(model):
        return exported(model)

    def inputs():
        return features()

    def train(digest, model):
        found = digest()
        model.after = 1
        return found

    def run_fn(digest):
        with open(__file__):
            model = Model()
            inputs()
            for number in range(1):
                first = train(digest, model)
                model.later = 1
            second = train(digest, model)
            json.dumps(RATE)
        third = digest()
        serve(model)
        return first, second, third
"""
HELPER = """
    import os

    def features():
        return _scale(1)

    def _scale(x):
        return x * 2

    def units():
        return 3

    def exported(model):
        return _signature(model)

    def _signature(model):
        return os.path.join("a", "b")
"""


@pytest.fixture
def digests(tmp_path: pathlib.Path) -> Callable[..., tuple[str, str, str]]:
    """Writes the module with texts replaced, runs it, and returns the digests at its three calls."""

    def run(before: str = "", after: str = "", monkeypatch: pytest.MonkeyPatch | None = None) -> tuple[str, str, str]:
        files = {"main": MODULE, "helper": HELPER}
        assert any(before in text for text in files.values())
        paths = []
        for name, text in files.items():
            paths.append(tmp_path / f"{name}.py")
            paths[-1].write_text(textwrap.dedent(text.replace(before, after) if before else text))
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(str(tmp_path))
            modules = {}
            for name in ("helper", "main"):
                spec = importlib.util.spec_from_file_location(name, tmp_path / f"{name}.py")
                modules[name] = importlib.util.module_from_spec(spec)
                patch.setitem(__import__("sys").modules, name, modules[name])
                spec.loader.exec_module(modules[name])
            code = TrainingCode([str(path) for path in paths], str(tmp_path))
            return modules["main"].run_fn(code.digest)

    return run


@pytest.mark.parametrize(
    ("before", "after", "first_to_differ"),
    [
        ("serve(model)\n        return first", "serve(model.after)\n        return first", 4),
        ("return exported(model)", "return exported(None)", 4),
        ('"a", "b"', '"a", "c"', 4),
        ("import os", "import os, sys", 4),
        ("RATE = 0.1", "RATE = 0.1  # of learning", 4),
        ("json.dumps(RATE)", "json.dumps([RATE])", 3),
        ("return found", "return found or None", 2),
        ("model.after = 1", "model.after = 2", 2),
        ("model.later = 1", "model.later = 2", 1),
        ("RATE = 0.1", "RATE = 0.2", 1),
        ("return x * 2", "return x * 3", 1),
        ("return 3", "return 4", 1),
        ("return features()", "return features() + 0", 1),
        ("found = digest()", "found = (digest)(*())", 1),
    ],
)
def test_a_change_counts_from_the_call_on_before_which_it_can_run(
    digests: Callable[..., tuple[str, str, str]], before: str, after: str, first_to_differ: int
) -> None:
    unchanged = digests()
    assert unchanged == digests()
    changed = digests(before, after)
    same = [one == other for one, other in zip(unchanged, changed, strict=True)]
    assert same == [number < first_to_differ for number in (1, 2, 3)]
