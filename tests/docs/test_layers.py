"""The diagram of the layers is up to date with the contracts and docstrings, from which scripts/layers.py draws it."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


def test_the_layers_diagram_is_up_to_date(tmp_path: pathlib.Path) -> None:
    if sys.version_info < (3, 11):
        pytest.skip("tomllib comes with Python 3.11")
    drawn = tmp_path / "layers.svg"
    subprocess.run([sys.executable, REPOSITORY / "scripts" / "layers.py", drawn], check=True)
    committed = (REPOSITORY / "docs" / "images" / "layers.svg").read_text(encoding="utf-8")
    assert drawn.read_text(encoding="utf-8") == committed, "run scripts/layers.py and commit docs/images/layers.svg"
