"""Options from a file and the environment, and the output of `--print-config`."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner

from generic_trainer.cli.commands import names
from generic_trainer.cli.help_panels import _PANELS
from generic_trainer.cli.main import cli
from generic_trainer.executors.errors import InputError


def effective(*words: str, env: dict[str, str] | None = None) -> tuple[dict[str, Any], str]:
    """Returns a command's effective values and the text of --print-config, which includes their sources."""
    result = CliRunner().invoke(cli, [*words, "--print-config"], env=env or {}, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return yaml.safe_load(result.output), result.output


@pytest.fixture
def config(tmp_path: Path) -> Any:
    def write(text: str) -> str:
        path = tmp_path / "conf" / "taxi.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return str(path)

    return write


FILE = """\
data: taxi
module-file: taxi_keras.py
label: big_tip
train_steps: 50
slice-by: [hour, day]
custom-config: {epochs: 5, when: 2024-01-02}
workers: 1:4
engine: ray
cache: no
train:
  train-files: taxi/train*
  output: /out
  label: nobody
"""


def test_each_kind_of_option_is_read_from_the_file(config: Any, tmp_path: Path) -> None:
    path = config(FILE.replace("  label: nobody\n", ""))
    (tmp_path / "conf" / "taxi_keras.py").touch()
    values, text = effective("run", "--config", path)
    folder = str(tmp_path / "conf")
    assert values["data"] == f"{folder}/taxi"
    assert values["module-file"] == f"{folder}/taxi_keras.py"
    assert values["train-steps"] == 50
    assert values["slice-by"] == ["hour", "day"]
    assert values["custom-config"] == {"epochs": 5, "when": "2024-01-02"}
    assert values["workers"] == "1:4"  # a base-60 number in YAML 1.1
    assert values["cache"] is False
    assert f"label: big_tip  # {path}" in text
    assert "seed: null  # default" in text


def test_a_command_reads_its_section_and_its_known_options(config: Any, tmp_path: Path) -> None:
    values, _ = effective("train", "--config", config(FILE.replace("  label: nobody\n", "")))
    assert values["module"] == "taxi_keras.py"  # module-file of `run`: not an existing file, so it may be a dotted name
    assert values["train-files"] == [f"{tmp_path}/conf/taxi/train*"]
    assert values["output"] == "/out"
    assert "label" not in values


def test_a_command_section_rejects_options_of_other_commands(config: Any) -> None:
    with pytest.raises(InputError, match="line 13: no such option: 'label'"):
        effective("train", "--config", config(FILE))


def test_precedence_is_command_line_environment_file_default(config: Any) -> None:
    path = config("data: d\nmodule-file: m\nlabel: file\ntask: binary\nseed: 1\n")
    env = {"GENERIC_TRAINER_RUN_LABEL": "environment", "GENERIC_TRAINER_RUN_SEED": "2"}
    values, text = effective("run", "--config", path, "--seed", "3", env=env)
    assert (values["seed"], values["label"], values["task"], values["timeout"]) == (3, "environment", "binary", None)
    assert "label: environment  # environment" in text
    assert "seed: 3  # command line" in text


def test_print_config_output_can_be_used_as_config(config: Any, tmp_path: Path) -> None:
    path = config("data: /d\nmodule-file: m\nslice-by: [a]\nskip-check: [finite, answers]\n")
    values, text = effective("run", "--config", path)
    again = tmp_path / "conf" / "again.yaml"
    again.write_text(text)
    assert effective("run", "--config", str(again))[0] == {**values, "pipeline-root": f"{tmp_path}/conf/pipeline"}


def test_the_environment_may_name_the_config_file(config: Any) -> None:
    env = {"GENERIC_TRAINER_RUN_CONFIG": config("data: d\nmodule-file: m\nlabel: x\n")}
    assert effective("run", env=env)[0]["label"] == "x"


def test_secrets_are_not_shown(config: Any) -> None:
    path = config(
        "data: d\nmodule-file: m\nmetadata: mysql://me:hunter2@host/db\ncustom-config: {api_key: hunter2, list: [1]}\n"
    )
    values, text = effective("run", "--config", path)
    assert "hunter2" not in text
    assert values["custom-config"] == {"api_key": "***", "list": [1]}


def test_elasticdl_commands_have_separate_sections(config: Any) -> None:
    path = config("elasticdl train:\n  model_zoo: zoo\n  model_def: m.f\n  training_data: x.csv\n  output: /o\n")
    values, _ = effective("elasticdl", "train", "--config", path)
    assert values["model_def"] == "m.f"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lable: x\n", r"line 1: no such option: 'lable'\. Did you mean 'label'\?"),
        ("data: d\ntrain-steps: many\n", r"taxi\.yaml, line 2: train-steps: 'many': give an integer from 0"),
        ("data: [a, b]\n", "line 1: data: must be one value, not a list"),
        ("slice-by: {a: b}\n", "line 1: slice-by: must be a value or a list, not a mapping"),
        ("slice-by: [[a]]\n", "line 1: slice-by: the items of a list must be plain values"),
        ("task: ternary\n", "line 1: task: 'ternary' is not one of"),
        ("- data\n", "must be a mapping of options"),
        ("data: a\n\ndata: b\n", "line 3: duplicate key data, also in line 1"),
        ("train-steps: 1\ntrain_steps: 2\n", "line 2: train_steps is in line 1 already"),
        ("data: [\n", "invalid YAML"),
        ("data: !!python/object/apply:os.getcwd []\n", "line 1: the tag .*os.getcwd is not supported"),
        ("run: {lable: x}\n", "no such option: 'lable'"),
        ("\x00", "invalid YAML"),
    ],
)
def test_an_invalid_file_is_rejected_with_its_line(config: Any, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        effective("run", "--config", config(text))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.yaml: cannot read the file \(No such file"):
        effective("run", "--config", str(tmp_path / "none.yaml"))


def test_an_empty_file_and_an_empty_value_leave_defaults(config: Any) -> None:
    words = ("run", "--data", "d", "--module-file", "m", "--config")
    assert effective(*words, config(""))[0]["label"] == ""
    assert effective(*words, config("label:\nseed: ~\n"))[0]["seed"] is None
    assert effective(*words, config("label: 08\n"))[0]["label"] == "08"


def commands(group: click.Group = cli, path: tuple[str, ...] = ()) -> Any:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command.hidden:
            continue
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


def test_each_command_has_an_example_and_takes_a_configuration() -> None:
    found = dict(commands())
    assert {path[0] for path in found} == set(names())
    for path, command in found.items():
        text = command.help or ""
        assert "Example" in text, path
        if not isinstance(command, click.Group):
            assert {"config", "print_config"} <= {parameter.name for parameter in command.params}, path
        for parameter in command.params:
            assert not isinstance(parameter, click.Option) or parameter.help or parameter.hidden, (path, parameter.name)


def test_the_help_of_a_command_with_many_options_has_panels() -> None:
    shown = {name: CliRunner().invoke(cli, [name, "--help"]).output for name in ("run", "show")}
    titles = re.findall(r"^(\S.*):$", shown["run"], re.MULTILINE)
    assert titles[:2] == ["Options", "The data"]
    assert {"The evaluation", "Pushing the model", "Workers and clusters"} < set(titles)
    assert shown["run"].index("--data ") < shown["run"].index("--label ") < shown["run"].index("The data:")
    assert re.findall(r"^(\S.*):$", shown["show"], re.MULTILINE) == ["Options"]
    flags = {flag for _, command in commands() for parameter in command.params for flag in parameter.opts}
    assert [flag for panel in _PANELS.values() for flag in panel if flag not in flags] == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_shell_script(shell: str) -> None:
    result = CliRunner().invoke(cli, ["completion", shell])
    assert "_GENERIC_TRAINER_COMPLETE" in result.output


def test_options_and_paths_are_completed(command: Any) -> None:
    env = {**os.environ, "_GENERIC_TRAINER_COMPLETE": "bash_complete", "COMP_CWORD": "2"}
    assert "plain,--label\n" in command(env={**env, "COMP_WORDS": "generic-trainer run --la"}).stdout
    env |= {"COMP_WORDS": "generic-trainer run --data ", "COMP_CWORD": "3"}
    assert command(env=env).stdout.startswith("file,")
    env |= {"COMP_WORDS": "generic-trainer run --pipeline-root "}
    assert command(env=env).stdout.startswith("dir,")


def test_run_ids_are_completed(command: Any, tmp_path: Path) -> None:
    for identifier, status in (("4f0c1a2b77", "succeeded"), ("9e55aa0133", "failed")):
        record = {"id": identifier, "status": status, "started": "2026-11-01T12:00:00+00:00"}
        (tmp_path / "lab" / identifier).mkdir(parents=True)
        (tmp_path / "lab" / identifier / "run.json").write_text(json.dumps(record))

    def offered(words: str) -> list[str]:
        env = {"_GENERIC_TRAINER_COMPLETE": "bash_complete", "COMP_CWORD": str(words.count(" "))}
        done = command(env={**os.environ, **env, "COMP_WORDS": words}, cwd=tmp_path)
        assert done.stderr == ""
        return done.stdout.splitlines()

    assert sorted(offered("generic-trainer show ")) == ["dir,", "plain,4f0c1a2b", "plain,9e55aa01", "plain,last"]
    assert offered("generic-trainer diff last 4f0c1a2b7") == ["dir,4f0c1a2b7", "plain,4f0c1a2b7"]
    assert offered("generic-trainer report --in nowhere 4") == ["dir,4"]
    assert offered("generic-trainer report --in lab last --compare 9") == ["dir,9", "plain,9e55aa01"]
    assert offered("generic-trainer watch lab/") == ["dir,lab/"]


def test_version_shows_the_stack(command: Any) -> None:
    lines = command("--version").stdout.splitlines()
    assert lines[0].startswith("generic-trainer ")
    assert {"tensorflow", "tfx", "python"} <= {line.split()[0] for line in lines}
