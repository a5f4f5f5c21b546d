"""`--data_reader_params` in ElasticDL's syntax, and what our readers make of it."""

from __future__ import annotations

from typing import Any

import pytest

from generic_trainer.executors.dialects.elasticdl.readers.reader_params import ReaderParams, parse_reader_params
from generic_trainer.executors.errors import InputError


@pytest.mark.parametrize(
    ("text", "params"),
    [
        ("columns=['sepal.length', 'variety']; sep=','", {"columns": ["sepal.length", "variety"], "sep": ","}),
        ("sep=,;reader_type=CSV", {"sep": ",", "reader_type": "CSV"}),
        ("sep=';'; columns=['a;b', \"c\"]", {"sep": ";", "columns": ["a;b", "c"]}),
        ('note="it\'s; so"; n=3', {"note": "it's; so", "n": 3}),
        ("note=it's; other='b'", {"note": "it's", "other": "b"}),
        ("partition=dt=20200101", {"partition": "dt=20200101"}),
        (
            " n = -1.5 ; flag=True; none=None; map={'a': [1, (2,)]};",
            {"n": -1.5, "flag": True, "none": None, "map": {"a": [1, (2,)]}},
        ),
        ("empty=; sep='\\t'", {"empty": "", "sep": "\t"}),
        ("", {}),
        (None, {}),
        ({"columns": ["a"]}, {"columns": ["a"]}),
    ],
)
def test_values_are_literals_or_strings(text: Any, params: dict[str, Any]) -> None:
    assert parse_reader_params(text) == params


def test_nothing_is_evaluated() -> None:
    text = "a=__import__('os').getcwd(); b=1+1; c=[x for x in 'ab']"

    assert parse_reader_params(text) == {"a": "__import__('os').getcwd()", "b": "1+1", "c": "[x for x in 'ab']"}


@pytest.mark.parametrize(
    ("text", "what"), [("columns", "'columns' is not of the form"), ("a=1; a=2", "names 'a' twice")]
)
def test_unparsable_records_are_reported(text: str, what: str) -> None:
    with pytest.raises(InputError, match=what):
        parse_reader_params(text)


@pytest.mark.parametrize(
    ("params", "what"),
    [
        ({"column": ["a"]}, "unknown parameter 'column'. Did you mean 'columns'?"),
        ({"reader_type": "TFRecords"}, "Did you mean 'TFRecord'?"),
        ({"columns": []}, "write a list of names"),
        ({"columns": [1]}, "write a list of names"),
        ({"sep": "\\t"}, "one character"),
        ({"sep": 1}, "one character"),
        ({"num_processes": 0}, "num_processes is 0; give an integer from 1"),
        ({"records_per_task": "many"}, "records_per_task is 'many'"),
    ],
)
def test_unusable_parameters_are_reported(params: dict[str, Any], what: str) -> None:
    with pytest.raises(InputError) as raised:
        ReaderParams.of(params)

    assert what in str(raised.value)


def test_a_single_column_is_allowed_and_parameters_of_other_readers_are_ignored() -> None:
    assert ReaderParams.of({"columns": "a", "label_col": "b"}) == ReaderParams(columns=("a",))


def test_credentials_are_not_shown() -> None:
    assert "secret" not in repr(ReaderParams(access_id="secret id", access_key="secret key"))
