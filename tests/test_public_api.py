"""The public API is pinned in `public_api.txt`; docs/reference/api_promise.md explains why.

The sources are parsed, not imported, so that neither TensorFlow nor TFX is needed.
"""

from __future__ import annotations

import ast
import configparser
import difflib
import importlib
import os
import pathlib
import re
from collections.abc import Iterator
from typing import Any, get_type_hints

import click
import pytest
import yaml

import generic_trainer
from generic_trainer.cli.command_names import COMMANDS
from generic_trainer.cli.configuration import with_config
from generic_trainer.cli.main import cli
from generic_trainer.executors import errors, options
from generic_trainer.executors.errors import TrainerError

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
SNAPSHOT = pathlib.Path(__file__).with_name("public_api.txt")
# In addition to the package's exports: names that the documentation refers to by their module.
OTHERS = {
    "executors.monitoring.run_record": ["RunRecord"],
    "pipelines.kubeflow.component": ["trainer_component", "trainer_op"],  # from pipelines.kubeflow, as the next three
    "pipelines.kubeflow.pipeline": ["KubeflowPipeline", "StepResources", "compile_pipeline"],
    "pipelines.local": ["LocalPipeline", "create_pipeline", "run_pipeline"],  # from pipelines.local
    "pipelines.local.outcome": ["Outcome"],
    "pipelines.definition.options": ["PipelineOptions"],
}
UPDATE = "UPDATE_PUBLIC_API"
ADVICE = f"""
What others rely on is no longer what tests/public_api.txt says (the lines above: - before, + now).

If that was not meant, undo it. If it was:
  1. nothing is taken away or renamed before it has warned for a minor release (docs/reference/api_promise.md);
  2. CHANGELOG.md tells it, under Added, Changed, Deprecated or Removed, and what to do;
  3. {UPDATE}=1 .venv/bin/python -m pytest tests/test_public_api.py writes the new snapshot.
"""


def test_the_public_api_has_not_changed() -> None:
    now = "\n".join(snapshot()) + "\n"
    if os.environ.get(UPDATE):
        SNAPSHOT.write_text(now, encoding="utf-8")
    before = SNAPSHOT.read_text(encoding="utf-8")
    lines = list(difflib.unified_diff(before.splitlines(), now.splitlines(), "before", "now", lineterm="", n=1))
    if lines:
        pytest.fail("\n".join([*lines[:200], ADVICE]), pytrace=False)


def snapshot() -> Iterator[str]:
    yield "# Made by tests/test_public_api.py, which says how to change it."
    parts = {
        "generic_trainer": exported(),
        "Other modules that the documentation names": others(),
        "Exit codes": exit_codes(),
        "Commands": commands(),
        "Environment variables": variables(),
        "run.json": fields_of("executors.monitoring.run_record", "RunRecord"),
        "The Trainer's inputs, outputs and execution properties": specification("components.trainer", "TrainerSpec"),
        "The Tuner's": specification("components.tuner", "TunerSpec"),
        "Properties of artifacts": properties(),
        "The component for Kubeflow Pipelines": component(),
        "Entry points and extras": entry_points(),
    }
    for title, lines in parts.items():
        yield from ["", f"## {title}", *lines]


def tree(module: str) -> ast.Module:
    path = REPOSITORY.joinpath(*module.split(".")).with_suffix(".py")
    path = path if path.exists() else path.with_suffix("") / "__init__.py"
    return ast.parse(path.read_text(encoding="utf-8"))


def exported() -> Iterator[str]:
    for name in generic_trainer.__all__:
        if name != "__version__":
            yield from described(generic_trainer._HOMES[name], name)


def others() -> Iterator[str]:
    for module, names in OTHERS.items():
        for name in names:
            yield f"from generic_trainer.{module}:"
            yield from described(module, name)


def described(module: str, name: str) -> Iterator[str]:
    module = home(module, name)
    node = next(node for node in tree(module).body if getattr(node, "name", "") == name or name in targets(node))
    if isinstance(node, ast.FunctionDef):
        yield f"def {signature(node)}"
    elif isinstance(node, ast.ClassDef):
        yield from class_lines(node)
    else:
        yield ast.unparse(node)


def home(module: str, name: str) -> str:
    """Returns the module that defines a name; a package may import it lazily, by its `_HOMES`."""
    homes = [ast.literal_eval(node.value) for node in tree(module).body if "_HOMES" in targets(node)]
    return f"{module}.{homes[0][name]}" if homes and name in homes[0] else module


def targets(node: ast.stmt) -> list[str]:
    return [target.id for target in getattr(node, "targets", ()) if isinstance(target, ast.Name)]


def signature(node: ast.FunctionDef) -> str:
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{node.name}({arguments(node.args)}){returns}"


def arguments(node: ast.arguments) -> str:
    """Returns a function's arguments; `**options: Unpack[Keywords]` is expanded to its keywords."""
    text = ast.unparse(node)
    if node.kwarg is None or node.kwarg.annotation is None or "Unpack" not in ast.unparse(node.kwarg.annotation):
        return text
    kinds = get_type_hints(getattr(options, ast.unparse(node.kwarg.annotation)[len("Unpack[") : -1]))
    taken = [option for option in options.declared_options() if option.name in kinds]
    keywords = [f"{one.name}: {type_text(kinds[one.name])}={one.default!r}" for one in taken]
    return text.replace(
        f"**{ast.unparse(ast.arguments([], [], None, [], [], node.kwarg, []))[2:]}", ", ".join(keywords)
    )


def type_text(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("collections.abc.", "")


def class_lines(node: ast.ClassDef) -> Iterator[str]:
    bases = ", ".join(map(ast.unparse, node.bases))
    yield f"class {node.name}({bases})" if bases else f"class {node.name}"
    for part in node.body:
        if isinstance(part, ast.AnnAssign) and not ast.unparse(part.target).startswith("_"):
            yield f"    {field(part)}"
        elif isinstance(part, ast.FunctionDef) and (not part.name.startswith("_") or part.name == "__init__"):
            kinds = [ast.unparse(one) for one in part.decorator_list if not isinstance(one, ast.Call)]
            yield f"    {' '.join([*(f'@{kind}' for kind in kinds), f'def {signature(part)}'])}"


def field(part: ast.AnnAssign) -> str:
    """Returns a field with its default; for an option also its choices, but not its help."""
    if isinstance(part.value, ast.Call) and ast.unparse(part.value.func) == "_option":
        default, _, *choices = map(ast.unparse, part.value.args)
        shown = f", of {choices[0]}" if choices else ""
        return f"{ast.unparse(part.target)}: {ast.unparse(part.annotation)} = {default}{shown}"
    return ast.unparse(part)


def fields_of(module: str, name: str) -> list[str]:
    return [line.strip() for line in described(module, name) if ":" in line and "def " not in line]


def exit_codes() -> Iterator[str]:
    known = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, TrainerError)]
    for error in sorted(known, key=lambda one: one.__name__):
        yield f"{error.exit_code} {error.__name__}"
    yield from ("0 done", "1 an exception of the module's own", "2 wrong usage", "130 Ctrl-C", "143 SIGTERM")


def commands() -> Iterator[str]:
    yield from command_lines("generic-trainer", cli)
    for name in COMMANDS:
        command = getattr(importlib.import_module(f"generic_trainer.cli.{name}"), name)
        yield from command_lines(f"generic-trainer {name}", with_config(command))


def command_lines(path: str, command: click.Command) -> Iterator[str]:
    yield path
    for parameter in command.params:
        yield f"    {parameter_line(parameter)}"
    if isinstance(command, click.Group) and path != "generic-trainer":
        for name, inner in command.commands.items():
            yield from command_lines(f"{path} {name}", inner)


def parameter_line(parameter: click.Parameter) -> str:
    choices = getattr(parameter.type, "choices", None)
    is_flag = getattr(parameter, "is_flag", False)
    has_default = parameter.default is not None and not callable(parameter.default) and parameter.default is not False
    facts = [
        parameter.type.name if choices is None else "|".join(map(str, choices)),
        f"default {parameter.default!r}" if has_default else "",
        "required" if parameter.required else "",
        "flag" if is_flag else "",
        "may be repeated" if getattr(parameter, "multiple", False) else "",
        f"{parameter.nargs} words" if parameter.nargs != 1 else "",
        "hidden" if getattr(parameter, "hidden", False) else "",
    ]
    shown = ", ".join(fact for fact in facts if fact and "UNSET" not in fact.upper())
    return f"{'/'.join([*parameter.opts, *parameter.secondary_opts])}: {shown}"


def variables() -> Iterator[str]:
    """Those of options, by their rule, and those in the documentation."""
    yield "GENERIC_TRAINER_COMMAND_OPTION, of every option above"
    pages = [REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md")]
    found = {name for page in pages for name in re.findall(r"\bGENERIC_TRAINER_[A-Z_]+\b", page.read_text("utf-8"))}
    of_options = tuple(f"GENERIC_TRAINER_{name.upper()}_" for name in COMMANDS)
    yield from sorted(name for name in found if not name.startswith(of_options))


def specification(module: str, name: str) -> Iterator[str]:
    node = next(node for node in tree(module).body if isinstance(node, ast.ClassDef) and node.name == name)
    for part in node.body:
        if isinstance(part, ast.AnnAssign) and isinstance(part.value, ast.Dict):
            for key, value in zip(part.value.keys, part.value.values, strict=True):
                lines = [f"{ast.unparse(key)}: {ast.unparse(value)}"] if key else of_options(module)
                yield from (f"{ast.unparse(part.target)}: {line}" for line in lines)


def of_options(module: str) -> list[str]:
    """Returns the execution parameters of a component's options in the form of explicit ones."""
    taken = importlib.import_module(f"generic_trainer.{module}")._OPTIONS
    return [f"{one.name!r}: ExecutionParameter(type={one.stored_type.__name__}, optional=True)" for one in taken]


def properties() -> Iterator[str]:
    """Properties of artifacts that others may read, from the code that sets them."""
    found = set()
    for module in ("executors.training.step", "executors.tuning.step", "executors.kubeflow.component_step"):
        for node in ast.walk(tree(module)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if re.fullmatch(r"set_\w+_custom_property", node.func.attr):
                    found.add(f"{module}: {ast.unparse(node.args[0])}, {node.func.attr.split('_')[1]}")
                if node.func.attr == "update" and "metadata" in ast.unparse(node.func):
                    found |= {f"{module}: {keyword.arg or ast.unparse(keyword.value)}" for keyword in node.keywords}
    yield from sorted(found)


def component() -> Iterator[str]:
    [text] = [path.read_text(encoding="utf-8") for path in REPOSITORY.glob("pipelines/kubeflow/trainer.component.yaml")]
    [described] = yaml.safe_load(text)["components"].values()
    for side in ("inputDefinitions", "outputDefinitions"):
        for kind, definitions in described[side].items():
            for name, definition in sorted(definitions.items()):
                what = definition.get("parameterType") or definition["artifactType"]["schemaTitle"]
                default = f", default {definition['defaultValue']!r}" if "defaultValue" in definition else ""
                yield f"{side.removesuffix('Definitions')} {kind} {name}: {what}{default}"


def entry_points() -> Iterator[str]:
    settings = configparser.ConfigParser()
    settings.read(REPOSITORY / "setup.cfg", encoding="utf-8")
    for group, entries in settings["options.entry_points"].items():
        yield from (f"{group}: {entry}" for entry in entries.split("\n") if entry)
    yield from (f"extra: {name}" for name in settings["options.extras_require"])
    yield f"python {settings['options']['python_requires']}"


def test_the_command_line_matches_the_snapshot() -> None:
    text = SNAPSHOT.read_text(encoding="utf-8")
    assert [name for name in COMMANDS if f"\ngeneric-trainer {name}\n" not in text] == []
    assert [name for name in generic_trainer.__all__ if not re.search(rf"\b{name}\b", text)] == ["__version__"]


def test_the_changelog_has_the_form_that_it_promises() -> None:
    """Keep a Changelog: releases, newest first, with sections for the kinds of change."""
    lines = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    releases = [line for line in lines if line.startswith("## ")]
    assert releases
    for line in releases:
        assert re.fullmatch(r"## \[(Unreleased|\d+\.\d+\.\d+)\]( \d+\.\d+\.\d+| - \d{4}-\d\d-\d\d)?", line), line
    kinds = {line.removeprefix("### ") for line in lines if line.startswith("### ")}
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    [latest] = [line for line in releases if "[Unreleased]" not in line][:1]
    assert generic_trainer.__version__ in latest
