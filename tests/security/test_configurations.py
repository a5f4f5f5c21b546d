"""Configurations are data: YAML makes no objects, and small ones stay small in memory."""

from __future__ import annotations

import pathlib

import pytest
from click.testing import CliRunner

from generic_trainer import InputError
from generic_trainer.cli.main import cli
from generic_trainer.pipelines.submit.elastic_job import read_elastic_job

LAUGHS = "\n".join(
    ["  a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    + [f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
)  # 9 ** 12 words, when written out
HOSTILE = {
    "object": ("  a: !!python/object/apply:os.abort []", "could not determine a constructor|not YAML"),
    "laughs": (LAUGHS, "more than 1,000,000 values"),
    "itself": ("  a: &a [*a]", "this holds itself"),
    "deep": ("  a: " + "[" * 20_000 + "]" * 20_000, "nested too deeply|not YAML"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_configuration_is_refused_with_a_reason(kind: str, tmp_path: pathlib.Path) -> None:
    text, message = HOSTILE[kind]
    path = tmp_path / "taxi.yaml"
    path.write_text(f"custom-config:\n{text}\n")
    line = ["train", "m.py", "--train-files", "x", "--output", "o", "--config", str(path)]
    with pytest.raises(InputError, match=message):
        CliRunner().invoke(cli, line, catch_exceptions=False, standalone_mode=False)


@pytest.mark.parametrize("kind", HOSTILE)
def test_so_is_an_elastic_job(kind: str, tmp_path: pathlib.Path) -> None:
    text, message = HOSTILE[kind]
    path = tmp_path / "job.yaml"
    path.write_text(
        f"apiVersion: elastic.iml.github.io/v1alpha1\nkind: ElasticJob\nmetadata:\n  name: x\nspec:\n{text}\n"
    )
    with pytest.raises(InputError, match=message):
        read_elastic_job(str(path))


def test_aliases_that_are_few_are_fine(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "taxi.yaml"
    path.write_text("custom-config:\n  a: &a {units: 3}\n  b: *a\n  c: [*a, *a]\n")
    line = ["train", "m.py", "--train-files", "x", "--output", "o", "--config", str(path), "--print-config"]
    done = CliRunner().invoke(cli, line, catch_exceptions=False)
    assert done.output.count("units: 3") == 4
