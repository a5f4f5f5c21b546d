"""Configurations are data: YAML creates no Python objects, and aliases cannot expand to huge values."""

from __future__ import annotations

import pathlib

import pytest
from click.testing import CliRunner

from generic_trainer import InputError
from generic_trainer.cli.main import cli
from generic_trainer.pipelines.submit.job_file import read_job_file

HOSTILE = {
    "object": ("  a: !!python/object/apply:os.abort []", r"line \d+: the tag .*os.abort is not supported"),
    "alias": ("  a: &a {units: 3}\n  b: *a", r"line \d+: the alias \*a is not supported; write out the value"),
    "itself": ("  a: &a [*a]", r"the alias \*a is not supported"),
    "deep": ("  a: " + "[" * 20_000 + "]" * 20_000, "nested too deeply|not YAML"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_an_invalid_configuration_is_rejected_with_a_reason(kind: str, tmp_path: pathlib.Path) -> None:
    text, message = HOSTILE[kind]
    path = tmp_path / "taxi.yaml"
    path.write_text(f"custom-config:\n{text}\n")
    line = ["train", "m.py", "--train-files", "x", "--output", "o", "--config", str(path)]
    with pytest.raises(InputError, match=message):
        CliRunner().invoke(cli, line, catch_exceptions=False, standalone_mode=False)


@pytest.mark.parametrize("kind", HOSTILE)
def test_an_invalid_elastic_job_is_rejected_with_a_reason(kind: str, tmp_path: pathlib.Path) -> None:
    text, message = HOSTILE[kind]
    path = tmp_path / "job.yaml"
    path.write_text(
        f"apiVersion: elastic.iml.github.io/v1alpha1\nkind: ElasticJob\nmetadata:\n  name: x\nspec:\n{text}\n"
    )
    with pytest.raises(InputError, match=message):
        read_job_file(str(path))
