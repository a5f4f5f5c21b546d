"""A forked command behaves like one in a new process, for its module and for readers of its output."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks")

MODULE = """
    import json, os, sys, tempfile
    {imports}

    def run_fn(fn_args):
        import tensorflow as tf
        known = ("tfx", "tf_keras", "generic_trainer.cli.run", "pytest")
        about = {{
            "environment": sorted(name for name in os.environ if name != "GENERIC_TRAINER_FORK_SERVER"),
            "temporary": tempfile.gettempdir(),
            "folder": os.getcwd(),
            "path": sys.path,
            "there": [name for name in known if name in sys.modules],
            "keras": tf.keras.Model.__module__,
            "descriptors": len(os.listdir("/proc/self/fd")),
        }}
        with open(fn_args.custom_config["notes"], "w") as file:
            json.dump(about, file)
        raise ZeroDivisionError("mine")
"""


@pytest.mark.thorough_but("")
@pytest.mark.slow
@pytest.mark.parametrize("imports", ["", "import tensorflow_estimator"])
def test_a_forked_command_behaves_like_a_new_process(
    imports: str, command: Command, module: Callable[..., str], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = module(MODULE.format(imports=imports))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (tmp_path / "rows").write_text("one\n")
    seen: list[dict[str, Any]] = []
    said = []
    for new_python in (False, True):
        notes = tmp_path / f"notes-{new_python}"
        done = command(
            *["train", path, "--train-files", tmp_path / "rows", "--output", tmp_path / "out"],
            *["--custom-config", json.dumps({"notes": str(notes)})],
            cwd=tmp_path,
            new_python=new_python,
        )
        assert notes.exists(), done.stderr
        seen.append(json.loads(notes.read_text()))
        said.append((done.returncode, done.stdout, done.stderr.splitlines()[-1]))
    assert seen[0] == seen[1]
    assert said[0] == said[1]
    assert said[0][2].startswith("generic-trainer: failed: ZeroDivisionError: mine (")
    assert said[0][0] == 1
