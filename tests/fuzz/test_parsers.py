"""The invariant of fuzz/ for every parser: any bytes give correct rows, or an error that names the file.

There, atheris searches for failures for minutes (`make fuzz`); here, hypothesis tries a few hundred inputs, the same
in every build, and all inputs that failed before.
"""

from __future__ import annotations

import importlib
import importlib.util
import pathlib
import sys
from types import ModuleType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "fuzz"
NO_PARSERS = ("__init__", "run", "target")
PARSERS = sorted(file.stem for file in FOLDER.glob("*.py") if file.stem not in NO_PARSERS)
REGRESSIONS = sorted(file.relative_to(FOLDER / "regressions") for file in FOLDER.glob("regressions/*/*"))
quickly = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def parser(name: str) -> ModuleType:
    """Imports a harness; its folder is not an installed package."""
    if "fuzz" not in sys.modules:
        spec = importlib.util.spec_from_file_location("fuzz", FOLDER / "__init__.py")
        assert spec
        sys.modules["fuzz"] = importlib.util.module_from_spec(spec)
    return importlib.import_module(f"fuzz.{name}")


def test_every_file_parser_has_a_harness() -> None:
    assert [
        *("conf", "config_file", "csv_columns", "elastic_job", "event_files", "example_rows"),
        *("reader_params", "recordio", "snappy", "text_lines", "tf_records"),
    ] == PARSERS


@st.composite
def changed(draw: st.DrawFn, seeds: list[bytes]) -> bytes:
    """A valid input with some bytes changed, removed, duplicated or inserted, or truncated."""
    data = bytearray(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(data)))
        kind = draw(st.sampled_from(["flip", "out", "in", "cut", "twice"]))
        if kind == "flip" and place < len(data):
            data[place] ^= 1 << draw(st.integers(0, 7))
        elif kind == "out":
            del data[place : place + draw(st.integers(1, 9))]
        elif kind == "in":
            data[place:place] = draw(st.binary(min_size=1, max_size=9))
        elif kind == "cut":
            del data[place:]
        else:
            data[place:place] = data[place : place + draw(st.integers(1, 30))]
    return bytes(data)


@pytest.mark.parametrize("name", PARSERS)
def test_valid_inputs_and_past_failures(name: str) -> None:
    found = [FOLDER / "regressions" / file for file in REGRESSIONS if file.parts[0] == name]
    for data in [*parser(name).SEEDS, *(file.read_bytes() for file in found)]:
        parser(name).check(data)


@pytest.mark.parametrize("name", PARSERS)
def test_changed_inputs(name: str) -> None:
    check = parser(name).check

    @quickly
    @given(changed(parser(name).SEEDS))
    def tried(data: bytes) -> None:
        check(data)

    tried()


@pytest.mark.parametrize("name", PARSERS)
def test_any_bytes(name: str) -> None:
    check = parser(name).check

    @quickly
    @given(st.binary(max_size=200))
    def tried(data: bytes) -> None:
        check(data)

    tried()
