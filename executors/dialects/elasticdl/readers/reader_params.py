"""Parsing and validation of ElasticDL's `--data_reader_params`.

Usage:

    parsed = parse_reader_params("columns=['sepal.length', 'variety']; sep=','")    # {"columns": [...], "sep": ","}
    ReaderParams.of(parsed).columns                                                 # ("sepal.length", "variety")
"""

from __future__ import annotations

import ast
import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ....errors import InputError, did_you_mean
from ....inputs.gzipped_files import head_of
from ....inputs.input_format import recognized
from ....inputs.readers.record_files import CSV, PARQUET, TEXT, TF_RECORD, common_format, find_record_files
from ....number_range import POSITIVE, WORKERS

ODPS, RECORD_IO = "ODPS", "RecordIO"
READER_TYPES = (CSV, ODPS, RECORD_IO, TF_RECORD, TEXT, PARQUET)

MAXCOMPUTE_VARIABLES = {
    "project": "MAXCOMPUTE_PROJECT",
    "access_id": "MAXCOMPUTE_AK",
    "access_key": "MAXCOMPUTE_SK",
    "endpoint": "MAXCOMPUTE_ENDPOINT",
    "tunnel_endpoint": "MAXCOMPUTE_TUNNEL_ENDPOINT",
}
MAXCOMPUTE_REQUIRED = ("project", "access_id", "access_key")

# Parameters of ElasticDL's readers that have no effect here, or only on the model file's `feed`.
_IGNORED = ("data_dir", "label_col")


def has_maxcompute_account() -> bool:
    """Returns whether project and credentials are in the environment: ElasticDL's condition to use its table reader."""
    return all(MAXCOMPUTE_VARIABLES[name] in os.environ for name in MAXCOMPUTE_REQUIRED)


def parse_reader_params(
    text: str | Mapping[str, object] | None, flag: str = "--data_reader_params"
) -> dict[str, object]:
    """Parses ElasticDL's syntax "name=value; name=value" without evaluating expressions, which ElasticDL did.

    Values are Python literals; anything else is taken as a string, so `sep=,` is the same as `sep=','`. A ";" inside a
    literal is part of the literal. A mapping is returned as a dict, and None or "" as {}.

    Raises:
      InputError: If a part has no "=", or a name occurs twice.
    """
    if isinstance(text, Mapping):
        return dict(text)
    params: dict[str, object] = {}
    parts = (text or "").split(";")
    while parts:
        part = parts.pop(0)
        if not part.strip():
            continue
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise InputError(f"{flag}: {part.strip()!r} is not of the form name=value; the whole value is {text!r}.")
        if name.strip() in params:
            raise InputError(f"{flag} names {name.strip()!r} twice: {text!r}.")
        params[name.strip()] = _value(value, parts)
    return params


@dataclasses.dataclass(frozen=True)
class ReaderParams:
    """Validated parameters of the built-in readers; those of custom readers are passed through unchecked.

    Attributes:
      reader_type: One of READER_TYPES; None to detect it from the data.
      columns: Names of the columns to read, in this order; None for all.
      sep: Separator of a CSV file, one character; None for a comma.
      partition: Partition of a MaxCompute table, such as "dt=20200101"; None for the whole table.
      num_processes: Number of ranges of a MaxCompute table to request in parallel, by threads; None for 4.
      records_per_task: Number of rows in a range of a MaxCompute table; None for 8192.
      project: Project of the MaxCompute table. None for the environment variable MAXCOMPUTE_PROJECT.
      access_id: Access key ID. None for MAXCOMPUTE_AK.
      access_key: Access key secret. None for MAXCOMPUTE_SK.
      endpoint: Endpoint of the service. None for MAXCOMPUTE_ENDPOINT.
      tunnel_endpoint: Endpoint of the tunnel service. None for MAXCOMPUTE_TUNNEL_ENDPOINT.

    Raises:
      InputError: If a value is not allowed.
    """

    reader_type: str | None = None
    columns: tuple[str, ...] | None = None
    sep: str | None = None
    partition: str | None = None
    num_processes: int | None = None
    records_per_task: int | None = None
    project: str | None = None
    access_id: str | None = dataclasses.field(default=None, repr=False)
    access_key: str | None = dataclasses.field(default=None, repr=False)
    endpoint: str | None = None
    tunnel_endpoint: str | None = None

    def __post_init__(self) -> None:
        if self.reader_type is not None and self.reader_type not in READER_TYPES:
            hint = did_you_mean(str(self.reader_type), READER_TYPES)
            raise InputError(f"reader_type {self.reader_type!r} is not one of {', '.join(READER_TYPES)}.{hint}")
        is_list = isinstance(self.columns, (list, tuple)) and bool(self.columns)
        if self.columns is not None and not (is_list and all(isinstance(name, str) for name in self.columns)):
            raise InputError(f"columns is {self.columns!r}; write a list of names, as in columns=['age', 'label'].")
        if self.sep is not None and (not isinstance(self.sep, str) or len(self.sep) != 1 or self.sep in '"\r\n'):
            raise InputError(f"sep is {self.sep!r}; it must be one character, as in sep=',' or sep='\\t'.")
        for name, numbers in (("num_processes", WORKERS), ("records_per_task", POSITIVE)):
            value = getattr(self, name)
            if value is not None and not numbers.includes(value):
                raise InputError(f"{name} is {value!r}; give {numbers}.")

    @classmethod
    def of(cls, params: Mapping[str, object]) -> ReaderParams:
        """Creates the parameters from a mapping, ignoring `data_dir` and `label_col`.

        Raises:
          InputError: If a name is unknown (ElasticDL ignored such names), or a value is not allowed.
        """
        known = [field.name for field in dataclasses.fields(cls)]
        for name in params:
            if name not in known and name not in _IGNORED:
                raise InputError(
                    f"--data_reader_params: unknown parameter {name!r}.{did_you_mean(name, known)} The parameters are "
                    f"{', '.join(known)}; only a custom_data_reader accepts others."
                )
        given: dict[str, Any] = {name: value for name, value in params.items() if name in known}
        columns = given.get("columns")
        if isinstance(columns, (list, tuple)):
            given["columns"] = tuple(columns)
        elif isinstance(columns, str):
            given["columns"] = (columns,)
        return cls(**given)


def find_records(origins: Sequence[str], params: ReaderParams) -> tuple[str, list[str]]:
    """Returns the kind of some data, one of READER_TYPES, and their files; ODPS without files for a table.

    Raises:
      InputError: If there are no data, or the files are of different or unknown formats.
    """
    if not any(origins):
        raise InputError("there is no data to read: the path, pattern or table name is empty.")
    if params.reader_type == ODPS or (params.reader_type is None and _names_table(origins)):
        if len(origins) > 1:
            raise InputError(f"{', '.join(origins)}: name one MaxCompute table, as in 'project.table'.")
        return ODPS, []
    files = find_record_files(origins)
    by_columns = params.columns is not None or params.sep is not None
    if params.reader_type is None:
        kind, _, files = common_format(files, by_columns)
        for path in files:
            if kind not in READER_TYPES or (recognized(path) is None and not _names_text(path)):
                raise InputError(
                    f"{path}: it begins with {head_of(path, 12).hex(' ')}, which is neither RecordIO nor TFRecord, and "
                    "its name does not indicate the format. Set the format: reader_type='CSV', 'Text', 'Parquet', … in "
                    "--data_reader_params."
                )
        return kind, files
    return (TEXT if params.reader_type == CSV and not by_columns else params.reader_type), files


def _names_text(path: str) -> bool:
    return path.lower().removesuffix(".gz").endswith(".txt")


def _names_table(origins: Sequence[str]) -> bool:
    return has_maxcompute_account() and len(origins) == 1 and "/" not in origins[0]


def _value(text: str, following: list[str]) -> object:
    """Parses a literal that may continue in the `following` parts, which are then removed; else returns the text."""
    for count in range(len(following) + 1):
        try:
            value = ast.literal_eval(";".join([text, *following[:count]]).strip())
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
        del following[:count]
        return value
    return text.strip()
