"""Packages register commands, and kinds of job files for `submit`, by entry point."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Callable

import pytest

MODULE = '''
import click
from generic_trainer.pipelines.submit.job_file import JobFile

@click.command()
@click.option("--sender", default="")
def announce(sender):
    """Announces a model."""
    click.echo(f"A model of {sender}.")

def translate(path, document):
    return JobFile("a", "", {}, "registry/trainer:1", ("train", "taxi", *document["flags"]), {}, "", (), False, ())
'''
JOB = "kind: TrainingCall\nflags: [--train-files=gs://b/train, --engine=ray]\n"


@pytest.fixture
def run(tmp_path: pathlib.Path) -> Callable[..., str]:
    """Runs a command line with a package that registers `announce` and the kind TrainingCall; returns its output."""
    information = tmp_path / "announcements-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: announcements\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(
        "[generic_trainer.commands]\nannounce = announcements:announce\nbroken = announcements:nothing\n"
        "[generic_trainer.job_files]\nTrainingCall = announcements:translate\n"
    )
    (tmp_path / "announcements.py").write_text(MODULE)
    (tmp_path / "call.yaml").write_text(JOB)

    def output(*words: str, code: int = 0) -> str:
        command = [sys.executable, "-m", "generic_trainer.cli.main", *words]
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        return done.stderr if code else done.stdout

    return output


def test_a_package_adds_a_command(run: Callable[..., str], tmp_path: pathlib.Path) -> None:
    (tmp_path / "config.yaml").write_text("announce:\n  sender: taxi\n")

    assert [line for line in run("--help").splitlines() if "Announces a model." in line]
    assert run("announce", "--config", "config.yaml") == "A model of taxi.\n"


def test_a_command_that_cannot_be_imported_is_an_error_of_its_own_only(
    run: Callable[..., str], tmp_path: pathlib.Path
) -> None:
    (tmp_path / "config.yaml").write_text("label: taxi\nannounce:\n  sender: taxi\n")

    assert [line for line in run("--help").splitlines() if line.startswith("  broken ")]
    assert run("announce", "--config", "config.yaml") == "A model of taxi.\n"
    problem = "announcements:nothing, which the package announcements registers as broken in generic_trainer.commands"
    assert f"generic-trainer: {problem}, cannot be imported (AttributeError: " in run("broken", "--help", "x", code=2)


def test_a_package_adds_a_kind_of_job_file(run: Callable[..., str]) -> None:
    job = run("submit", "--to", "kuberay", "--from", "call.yaml", "--", "--output=gs://b/out")

    assert "image: registry/trainer:1" in job
    assert "generic-trainer train taxi --train-files=gs://b/train --engine=ray --output=gs://b/out" in job
    assert "ElasticJob or TrainingCall to convert" in " ".join(run("submit", "--help").split())
