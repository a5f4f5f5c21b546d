"""`--data_reader_params`: any text gives parameters or an error, and literals survive a round trip."""

from __future__ import annotations

from generic_trainer.executors.dialects.elasticdl.readers.reader_params import ReaderParams, parse_reader_params
from generic_trainer.executors.errors import InputError

SEEDS = [
    b"columns=['sepal.length', 'variety']; sep=','",
    b"reader_type='CSV';records_per_task=10;num_processes=2",
    b"sep=;;columns=(1,2)",
    b"a={'b': [1, None, ';']}; c=0x10",
]


def check(data: bytes) -> None:
    """Parses the text, writes the parameters as literals, and parses these again."""
    text = data.decode("utf-8", "surrogateescape")
    try:
        params = parse_reader_params(text)
    except InputError as error:
        assert "data_reader_params" in str(error)
        return
    written = "; ".join(f"{name}={value!r}" for name, value in params.items() if ";" not in name)
    if len(params) == written.count("=") and not any(
        word in written for word in ("nan", "inf", "Ellipsis")
    ):  # no "=" in names or values
        assert parse_reader_params(written) == params
    try:
        ReaderParams.of(params)
    except InputError as error:
        assert str(error)
