"""`--vscode`: the command line becomes a debug configuration; other entries of launch.json are kept."""

from __future__ import annotations

import json
import pathlib
import subprocess
from collections.abc import Callable

import pytest

from generic_trainer.cli.vscode import add_configuration, read_launch, without_flag
from generic_trainer.executors.errors import InputError

FLAGS = ("--model_zoo", "zoo", "--model_def", "iris.custom_model", "--training_data=iris.csv")
PARAMS = "--data_reader_params=columns=['a', \"b\"]; sep=','"

COMMENTED = r"""{
    // Use IntelliSense to learn about possible attributes.
    "version": "0.2.0",
    "inputs": [],   /* asked for
                       at the start */
    "configurations": [
        {"name": "Python: Current File", "program": "${file}", "url": "http://host/a, ] // \" b",},
    ],
}
"""


def test_the_command_line_becomes_a_configuration_and_nothing_runs(
    command: Callable[..., subprocess.CompletedProcess[str]], tmp_path: pathlib.Path
) -> None:
    for epochs in (2, 3):  # the second call replaces the entry of the first
        done = command("elasticdl", "train", *FLAGS, PARAMS, "--num_epochs", epochs, "--vscode", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    wrong = command("elasticdl", "train", *FLAGS, "--num_epocs=3", "--vscode", ".vscode/launch.json", cwd=tmp_path)

    assert wrong.returncode == 2  # the command's flags are checked
    launch = json.loads((tmp_path / ".vscode" / "launch.json").read_text())
    (entry,) = launch["configurations"]
    assert entry["name"].endswith("elasticdl train iris.custom_model")
    assert entry["module"] == "generic_trainer.cli.main"
    assert entry["args"] == ["elasticdl", "train", *FLAGS, PARAMS, "--num_epochs", "3"]
    assert entry["justMyCode"] is False
    assert entry["cwd"] == "${workspaceFolder}"
    assert [path.name for path in tmp_path.iterdir()] == [".vscode"]


def test_all_forms_of_the_flag_are_removed() -> None:
    assert without_flag(["train", "--vscode", "a.json", "--x", "a.json"], "a.json") == ["train", "--x", "a.json"]
    assert without_flag(["train", "--vscode=a.json", "b"], "a.json") == ["train", "b"]
    assert without_flag(["--vscode", "--x"], ".vscode/launch.json") == ["--x"]


def test_comments_and_trailing_commas_are_ignored_but_not_in_strings() -> None:
    launch = read_launch(COMMENTED, "launch.json")
    assert launch["inputs"] == []
    assert launch["configurations"][0]["url"] == 'http://host/a, ] // " b'


def test_other_configurations_stay_and_comments_are_in_a_copy(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "launch.json"
    path.write_text(COMMENTED)
    add_configuration(str(path), {"name": "mine", "args": []})
    add_configuration(str(path), {"name": "mine", "args": ["é"]})

    before = read_launch(COMMENTED, "")
    before["configurations"].append({"name": "mine", "args": ["é"]})
    assert json.loads(path.read_text()) == before
    assert (tmp_path / "launch.json.orig").read_text() == COMMENTED


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{\n"version": // a comment\n}', "invalid JSON in line 3"),
        ("[]", "must be a JSON object"),
        ('{"configurations": {}}', "must be a list"),
        ('{"configurations": [1]}', "must be a list of objects"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_an_invalid_launch_file_is_not_changed(tmp_path: pathlib.Path, text: str, said: str) -> None:
    path = tmp_path / "launch.json"
    path.write_text(text)
    with pytest.raises(InputError, match=said):
        add_configuration(str(path), {"name": "mine"})
    assert path.read_text() == text
