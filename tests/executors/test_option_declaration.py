"""One field of `TrainingOptions` makes an option everywhere; where a further line is needed, the failure prints it."""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from generic_trainer import InputError, Trainer, TrainingOptions, Tuner
from generic_trainer.executors import options as declaration
from generic_trainer.executors.number_range import POSITIVE, SECONDS
from generic_trainer.executors.options import (
    GROUPS,
    Option,
    TrainerKeywords,
    TunerKeywords,
    _option,
    declared_options,
)

SOURCE = pathlib.Path(declaration.__file__)
TEXT = SOURCE.read_text(encoding="utf-8")
# Loads options.py with one more field, in each process that is started with the folder of this file in PYTHONPATH.
WITH_ONE_MORE = """
    import importlib.abc, importlib.machinery, importlib.util, os, sys

    class OneMore(importlib.machinery.SourceFileLoader):
        def get_code(self, fullname):
            text, before = self.get_data(self.path).decode(), os.environ["BEFORE"]
            return compile(text.replace(before, os.environ["FIELD"] + before), self.path, "exec")

    class Finder(importlib.abc.MetaPathFinder):
        def find_spec(self, fullname, path, target=None):
            if fullname != "generic_trainer.executors.options":
                return None
            file = os.environ["OPTIONS"]
            return importlib.util.spec_from_file_location(fullname, file, loader=OneMore(fullname, file))

    sys.meta_path.insert(0, Finder())
"""
FIELD = """    warm_up: int = _option(
        0, "Steps before the first that counts.", group=TRAINING, numbers=TASKS, metavar="STEPS", tuner=True
    )
"""
BEFORE = "    stop_on_nan: bool = _option("


def typed(option: Option) -> str:
    """Returns the line that a TypedDict needs; a keyword may be any sequence of names."""
    return f"    {option.name}: {option.annotation.replace('tuple[str, ...]', 'Sequence[str]')}"


@pytest.mark.parametrize(
    ("keywords", "taken"),
    [
        (TunerKeywords, [option for option in declared_options() if option.tuner]),
        (TrainerKeywords, [option for option in declared_options() if not option.tuner]),
    ],
    ids=["TunerKeywords", "TrainerKeywords"],
)
def test_type_checkers_see_each_option(keywords: Any, taken: list[Option]) -> None:
    [body] = re.findall(rf"class {keywords.__name__}\(.*?\n\n(.*?)(?:\n\n|\Z)", TEXT, re.DOTALL)
    found, expected = body.rstrip().split("\n"), [typed(option) for option in taken]
    number = TEXT[: TEXT.index(f"class {keywords.__name__}(")].count("\n") + 1
    place = f"{SOURCE.name}, line {number}: class {keywords.__name__}"
    missing, unknown = ([line for line in a if line not in b] for a, b in ((expected, found), (found, expected)))
    if missing or unknown:
        lines = [f"{place}: add the line\n{line}" for line in missing]
        pytest.fail("\n".join([*lines, *(f"{place}: remove the line\n{line}" for line in unknown)]), pytrace=False)


def test_components_show_the_options_with_types_and_defaults() -> None:
    for component, taken in ((Trainer, declared_options()), (Tuner, [one for one in declared_options() if one.tuner])):
        shown = inspect.signature(component).parameters
        assert [(shown[one.name].default, shown[one.name].annotation) for one in taken] == [
            (one.default, one.annotation) for one in taken
        ]
        assert [one.name for one in declared_options() if one.name in shown] == [one.name for one in taken]
        assert all(one.help in (component.__init__.__doc__ or "") for one in taken)


@pytest.mark.parametrize(("component", "name"), [(Trainer, "stop_on_nam"), (Tuner, "engine")])
def test_another_keyword_is_refused_as_python_does(component: Callable[..., Any], name: str) -> None:
    with pytest.raises(TypeError, match=rf"__init__\(\) got an unexpected keyword argument '{name}'"):
        component(examples=None, module_file="m.py", **{name: True})


def test_every_option_has_a_help_and_a_group() -> None:
    assert [option.name for option in declared_options() if not option.help.endswith(".")] == []
    assert {option.group for option in declared_options()} == set(GROUPS)


@pytest.mark.parametrize(
    ("kind", "default", "bounds", "texts", "wrong"),
    [
        (bool, False, {}, {"true": True, "0": False}, "maybe"),
        (int, 3, {"numbers": POSITIVE}, {"7": 7, "7.0": 7}, "0"),
        (float, 1.0, {"numbers": SECONDS}, {"2.5": 2.5}, "-1"),
        ("int | None", None, {"numbers": POSITIVE}, {"4": 4}, "0"),
        (str, "a", {"choices": ("a", "b")}, {"b": "b"}, "c"),
        (tuple[str, ...], (), {"choices": ("a", "b")}, {'["b"]': ("b",)}, '["c"]'),
    ],
)
def test_type_and_bounds_give_parser_and_checks(
    kind: Any, default: Any, bounds: dict[str, Any], texts: dict[str, Any], wrong: str
) -> None:
    field = _option(default, "For a test.", group=GROUPS[0], **bounds)
    more: Any = dataclasses.make_dataclass("More", [("extra", kind, field)], bases=(TrainingOptions,), frozen=True)
    for text, value in texts.items():
        read = more.from_exec_properties({"extra": text})
        assert read.extra == value
        assert more.from_exec_properties(read.to_exec_properties()) == read
    with pytest.raises(InputError, match="extra"):
        more.from_exec_properties({"extra": wrong})


def test_a_type_that_no_flag_can_have_is_refused() -> None:
    field = _option(None, "For a test.", group=GROUPS[0])
    more = dataclasses.make_dataclass("More", [("extra", dict, field)], bases=(TrainingOptions,), frozen=True)

    with pytest.raises(TypeError, match=r"More: .*'extra': 'dict'.*an option is bool, int, float, str or tuple"):
        more()


@pytest.fixture
def environment(tmp_path: pathlib.Path) -> dict[str, str]:
    """Environment variables with which `TrainingOptions` has the field `warm_up` in every process."""
    assert TEXT.count(BEFORE) == 1
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(inspect.cleandoc(WITH_ONE_MORE))
    added = {"OPTIONS": str(SOURCE), "BEFORE": BEFORE, "FIELD": FIELD}
    return {**os.environ, **added, "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}


def run(environment: dict[str, str], *words: object) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, words)], capture_output=True, text=True, check=False, env=environment, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.thorough
@pytest.mark.slow
def test_a_new_field_is_an_option_of_components_and_of_the_documentation(
    environment: dict[str, str], tiny_module: str
) -> None:
    pytest.importorskip("kfp")
    program = f"""
        import inspect, json, sys
        sys.path.insert(0, {str(SOURCE.parent.parent / "scripts")!r})
        from tfx import types
        from tfx.types import standard_artifacts
        import site_pages
        from generic_trainer import Trainer, Tuner, TrainingOptions
        from generic_trainer.executors.kubeflow.parameters import read_parameters
        from generic_trainer.pipelines.kubeflow import trainer_op

        arguments = {{"examples": types.Channel(type=standard_artifacts.Examples), "module_file": {tiny_module!r}}}
        made = [component(**arguments, warm_up=7) for component in (Trainer, Tuner)]
        print(json.dumps({{
            "properties": [one.exec_properties["warm_up"] for one in made],
            "read": TrainingOptions.from_exec_properties({{"warm_up": "7"}}).warm_up,
            "keywords": [str(inspect.signature(one).parameters["warm_up"]) for one in (Trainer, Tuner)],
            "kubeflow": [trainer_op.component_spec.inputs["warm_up"].default,
                         read_parameters({{"module": "m.py", "warm_up": 7.0}})[1].warm_up],
            "page": site_pages.commands_page(),
        }}))
    """
    found = json.loads(run(environment, "-c", inspect.cleandoc(program)).splitlines()[-1])

    page = found.pop("page")
    assert found == {"properties": [7, 7], "read": 7, "keywords": ["warm_up: 'int' = 0"] * 2, "kubeflow": [0, 7]}
    assert page.count("Steps before the first that counts.") == 1
    assert '<code class="option">--warm-up</code> <code>STEPS</code>' in page.partition("### The training\n")[2]


@pytest.mark.thorough
@pytest.mark.slow
def test_a_new_field_is_a_flag_and_a_key_of_config(
    environment: dict[str, str], tiny_module: str, iris: Any, tmp_path: pathlib.Path
) -> None:
    command = ("-m", "generic_trainer.cli.main", "train")
    given = (tiny_module, "--train-files", iris.train, "--output", tmp_path / "out")
    config = tmp_path / "config.yaml"
    config.write_text("warm-up: 5\n")

    text = " ".join(run(environment, *command, "--help").split())
    assert "--warm-up STEPS Steps before the first that counts. [default: 0]" in text
    shown = run(environment, *command, *given, "--config", config, "--print-config")
    assert f"warm-up: 5  # {config}" in shown

    run(environment, *command, *given, "--warm-up", 6)
    record = json.loads((tmp_path / "out" / "model_run" / "run.json").read_text())
    assert record["arguments"]["options"]["warm_up"] == 6
