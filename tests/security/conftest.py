"""Runs in which all names set by a user are markup, and whose configuration contains secrets."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import subprocess
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

import pytest

MARKUP = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</script><script>alert(1)</script>",
    "{{7*7}}{% for x in y %}",
    "\u2028alert(1)\u2029",
    "'-alert(1)-'",
    "--><svg onload=alert(1)>",
    "javascript:alert(1)",
    "\x1b]0;taken\x07\x1b[31m",
    "[red]taken[/]",
)
ALL = " ".join(MARKUP)
FILE_NAME = ALL.replace("/", "\N{FRACTION SLASH}")  # valid in file names
# Secrets by location; none of them may occur in any output.
SECRETS = {
    "under a name": "hunter2-by-name",
    "nested": "hunter2-nested",
    "in a list": "hunter2-in-list",
    "after a flag": "hunter2-flag",
    "in a URL": "hunter2-in-url",
    "in a query": "hunter2-in-query",
    "in a text": "hunter2-in-text",
    "by its shape": "AKIAIOSFODNN7EXAMPLE",
    "as Kubernetes writes it": "hunter2-kubernetes",
}
CONFIG: dict[str, Any] = {
    "api_key": SECRETS["under a name"],
    "database": {"Password": SECRETS["nested"], "host": "db.example.com"},
    "accounts": [{"user": "me", "auth_token": SECRETS["in a list"]}],
    "arguments": ["--client-secret", SECRETS["after a flag"], "--verbose"],
    "tracking": f"https://me:{SECRETS['in a URL']}@tracking.example.com/path",
    "signed": f"https://bucket.example.com/file?X-Amz-Signature={SECRETS['in a query']}&x=1",
    "reader": f"table=trips; access_key={SECRETS['in a text']}; project=p",
    "note": f"made by {SECRETS['by its shape']}",
    "env": [{"name": "MLFLOW_TOKEN", "value": SECRETS["as Kubernetes writes it"]}],
    "num_tokens": 512,
    ALL: ALL,
}

MODULE = """
    import json
    import os
    import tensorflow as tf
    from absl import logging

    NAME = NASTY

    class Tiny(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
        def serve(self, examples):
            parsed = tf.io.parse_example(examples, {"sepal_length": tf.io.FixedLenFeature([1], tf.float32)})
            return {"y": parsed["sepal_length"], "text": tf.fill([1, 1], NAME)}

    def run_fn(fn_args):
        logging.info("connecting with %s", fn_args.custom_config)
        print("the key is", fn_args.custom_config["api_key"])
        model = Tiny()
        writer = tf.summary.create_file_writer(os.path.join(fn_args.model_run_dir, "train"))
        with writer.as_default():
            for step in range(3):
                tf.summary.scalar(f"loss {NAME}", 1.0 / (step + 1), step=step)
        tf.saved_model.save(model, fn_args.serving_model_dir, signatures={"serving_default": model.serve})
        if fn_args.custom_config.get("fail"):
            raise ConnectionError(f"{NAME} refused {json.dumps(fn_args.custom_config)}")
        return {f"val_{NAME}": 0.5}
"""


@dataclasses.dataclass(frozen=True)
class Ran:
    """A run of the command: its folder, output, and exit code."""

    folder: pathlib.Path
    printed: str
    code: int

    @property
    def model_run(self) -> pathlib.Path:
        return self.folder / "model_run"

    @property
    def record(self) -> dict[str, Any]:
        return json.loads((self.model_run / "run.json").read_text())

    def leaks(self) -> list[str]:
        """Returns the secrets found in the files and in the output of the run, with their locations."""
        texts = {"output": self.printed}
        for path in sorted(self.folder.rglob("*")):
            if path.is_file():
                texts[str(path.relative_to(self.folder))] = path.read_bytes().decode("utf-8", "replace")
        assert {"model_run/run.json", "model_run/report.html"} < set(texts)
        return leaks(texts)


def leaks(texts: Mapping[str, str]) -> list[str]:
    return [f"{where}: {kind}" for where, text in texts.items() for kind, secret in SECRETS.items() if secret in text]


@pytest.fixture(scope="session")
def run_hostile(
    iris: Any, command: Callable[..., subprocess.CompletedProcess[str]], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[dict[str, Any]], Ran]:
    """Trains a module with markup in names, with the configuration above and additional entries."""

    def run(more: dict[str, Any]) -> Ran:
        folder = tmp_path_factory.mktemp("hostile")
        path = folder / f"{FILE_NAME}.py"
        path.write_text(textwrap.dedent(MODULE).replace("NASTY", repr(ALL)))
        config = folder / "config.json"
        config.write_text(json.dumps({**CONFIG, **more}))
        out = folder / "out"
        files = ("--train-files", iris.train, "--eval-files", iris.eval)
        done = command("train", path, *files, "--custom-config", f"@{config}", "--output", out)
        return Ran(out, done.stdout + done.stderr, done.returncode)

    return run


@pytest.fixture(scope="session")
def markup() -> str:
    return ALL


@pytest.fixture(scope="session")
def secrets() -> dict[str, str]:
    return SECRETS


@pytest.fixture(scope="session")
def config() -> dict[str, Any]:
    return CONFIG


@pytest.fixture(scope="session")
def leaks_in() -> Callable[[Mapping[str, str]], list[str]]:
    return leaks


@pytest.fixture(scope="session")
def hostile(run_hostile: Callable[[dict[str, Any]], Ran]) -> Ran:
    return run_hostile({})


@pytest.fixture(scope="session")
def hostile_failure(run_hostile: Callable[[dict[str, Any]], Ran]) -> Ran:
    return run_hostile({"fail": True})
