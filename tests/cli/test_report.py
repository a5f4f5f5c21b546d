"""`generic-trainer report`: one run, a comparison of several, and errors without a run."""

from __future__ import annotations

import os
import pathlib
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from ..world.modules import with_tiny

Command = Callable[..., subprocess.CompletedProcess[str]]

MODULE = with_tiny("""
    def run_fn(fn_args):
        weight = fn_args.custom_config["weight"]
        model = Tiny(weight)
        tf.saved_model.save(model, fn_args.serving_model_dir, signatures={"serving_default": model.serve})
        return {"loss": [weight, weight / 2], "val_accuracy": weight / 4}
""")


@pytest.fixture(scope="module")
def runs(iris: Any, command: Command, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with two runs of one module, `first` and `second`."""

    folder = tmp_path_factory.mktemp("reported")
    (folder / "tiny.py").write_text(MODULE)
    for name, weight in (("first", 3.0), ("second", 2.0)):
        data = ("--train-files", iris.train, "--eval-files", iris.eval)
        config = ("--custom-config", f'{{"weight": {weight}}}')
        done = command("train", "tiny.py", *data, *config, "--output", name, cwd=folder)
        assert done.returncode == 0, done.stderr
        assert f"Report:       {name}/model_run/report.html" in done.stdout
    return folder


@pytest.mark.thorough
def test_a_report_is_rewritten_and_its_path_printed(runs: pathlib.Path, command: Command) -> None:
    path = runs / "first" / "model_run" / "report.html"
    path.unlink()
    done = command("report", "first", cwd=runs)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(path)
    page = path.read_text()
    assert "Training of tiny.py" in page
    assert '<th scope="row">accuracy</th>' in page
    assert "Inputs and uses of the model" in page  # sections of a run of `train`: data, training, model


@pytest.mark.thorough
def test_a_report_can_be_written_to_a_given_file(runs: pathlib.Path, command: Command, tmp_path: pathlib.Path) -> None:
    done = command("report", "last", "--output", tmp_path / "page.html", cwd=runs)
    assert done.returncode == 0, done.stderr
    assert "<code>second/model/Format-Serving</code>" in (tmp_path / "page.html").read_text()


def test_report_compares_several_runs(runs: pathlib.Path, command: Command) -> None:
    done = command("report", "first", "--compare", "second", cwd=runs)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "comparison.html"
    page = (runs / "comparison.html").read_text()
    assert "2 runs of tiny.py" in page
    assert '<span class="bad">-0.25 (-33.3 %)</span>' in page  # accuracy 0.75, then 0.5
    assert '<span class="good">-0.5 (-33.3 %)</span>' in page  # loss 1.5, then 1.0
    assert "custom_config.weight" in page
    assert "B ran the same code as A." in page


def test_the_browser_is_given_the_page(runs: pathlib.Path, command: Command, tmp_path: pathlib.Path) -> None:
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/shown\n')
    browser.chmod(0o755)
    environment = {**os.environ, "BROWSER": f"{browser} %s"}
    done = command("report", "first", "--open", cwd=runs, env=environment)
    assert done.returncode == 0, done.stderr
    shown = (tmp_path / "shown").read_text().strip()
    assert shown == (runs / "first" / "model_run" / "report.html").as_uri()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing/"], "There is no run 'nothing/'"),
        (["first", "--compare", "nothing/"], "There is no run 'nothing/'"),
        (["first", "--output", "/proc/report.html"], "cannot write there"),
    ],
)
def test_errors_are_reported_in_one_line(arguments: list[str], said: str, runs: pathlib.Path, command: Command) -> None:
    done = command("report", *arguments, cwd=runs)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
