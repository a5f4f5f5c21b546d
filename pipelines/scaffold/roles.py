"""Selects the preprocessing of each column: number, category, text or time; or leaves it out, with the reason."""

from __future__ import annotations

import dataclasses
import datetime
import re

from ...executors.inputs.csv.value_types import is_number
from .column_statistics import FLOAT, INT, NOTHING, SEVERAL, TEXT, Column

NUMBER, PARSED, CATEGORY, WORDS, DATE, SECONDS, MILLISECONDS, LEFT_OUT = (
    "number", "parsed", "category", "words", "date", "seconds", "milliseconds", "left out",
)  # fmt: skip
VOCABULARY = 1000  # maximum of values of a category
_MAX_CODE_VALUES = 32  # maximum of distinct integers that may be category codes
_MIN_OCCURRENCES = 20  # minimum of mean occurrences per value of a category code
_MAX_CODES = 2000
_MISSING_SHARE = 0.99
_MOST_SHARE = 0.95
_MIN_WORDS = 4.0  # mean words per value from which text is free text

_WORD_START = r"(?i)(^|[_\s.-])"
_IDENTIFIER = re.compile(_WORD_START + r"(id|ids|uuid|guid|key|index|idx|row|rownum|rowid)$|^unnamed: ?\d+$|^$")
_CODE = re.compile(_WORD_START + r"(id|code|zip|zipcode|postcode|tract|area|region|type|kind|category|class|group)$")
_TIME = re.compile(r"time|date|(^|[_\s])(ts|at|ms)$", re.IGNORECASE)
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d.*)?")
_OTHER_DATE = re.compile(r"\d{1,4}[/.]\d{1,2}[/.]\d{1,4}( .*)?|\d{1,2}[- ][A-Za-z]{3}[- ]\d{2,4}.*")
_SECONDS_RANGE = (datetime.datetime(1980, 1, 1).timestamp(), datetime.datetime(2100, 1, 1).timestamp())


@dataclasses.dataclass(frozen=True)
class Role:
    """How the module preprocesses a column.

    Attributes:
      column: The column.
      kind: NUMBER; PARSED for text that mostly contains numbers; CATEGORY; WORDS for free text; DATE, such as
        "2013-03-01 12:15"; SECONDS and MILLISECONDS since 1970; LEFT_OUT.
      why: Description of the preprocessing for display, or the reason why the column is left out.
      size: Number of IDs of a CATEGORY; a missing value in an integer column counts as one more value. Else 0.
    """

    column: Column
    kind: str
    why: str
    size: int = 0


def choose_role(column: Column) -> Role:
    """Selects a column's role by its name, type and statistics."""
    if reason := _reason_to_leave_out(column):
        return _left_out(column, reason)
    return _role_of_text(column) if column.kind == TEXT else _role_of_numbers(column)


def _reason_to_leave_out(column: Column) -> str:
    present = column.rows - column.missing
    if column.kind == NOTHING:
        return "no values"
    if column.kind == SEVERAL:
        return "several values in a row"
    if column.missing >= _MISSING_SHARE * column.rows:
        return "almost always missing"
    if column.distinct == 1:
        return "constant"
    if column.kind != FLOAT and _IDENTIFIER.search(column.name) and column.distinct > 0.9 * present:
        return "identifier, by name and values"
    if column.kind == INT and _is_row_number(column, present):
        return "row number"
    return ""


def _is_row_number(column: Column, present: int) -> bool:
    assert column.numbers is not None
    span = column.numbers.largest - column.numbers.smallest + 1
    return present > _MAX_CODE_VALUES and column.distinct == present == span


def _role_of_numbers(column: Column) -> Role:
    assert column.numbers is not None
    smallest, largest = column.numbers.smallest, column.numbers.largest
    if column.kind == INT and _TIME.search(column.name):
        for kind, unit in ((SECONDS, 1), (MILLISECONDS, 1000)):
            if _SECONDS_RANGE[0] * unit <= smallest and largest <= _SECONDS_RANGE[1] * unit:
                return Role(column, kind, f"timestamp in {kind}: hour, weekday, month and trend")
    if column.kind == INT and smallest >= 0:
        present = column.rows - column.missing
        few = 2 < column.distinct <= _MAX_CODE_VALUES and largest < _MAX_CODES
        code = _CODE.search(column.name) and 2 < column.distinct <= _MAX_CODES
        if (few or code) and present >= _MIN_OCCURRENCES * column.distinct:
            return _category(column)
    return Role(column, NUMBER, "number: scaled")


def _role_of_text(column: Column) -> Role:
    present = column.rows - column.missing
    total = sum(count for _, count in column.frequent)

    def share(matches: list[int]) -> float:
        return sum(matches) / total

    if share([count for value, count in column.frequent if _ISO_DATE.fullmatch(value)]) >= _MOST_SHARE:
        return Role(column, DATE, "date: hour, weekday, month and trend")
    if share([count for value, count in column.frequent if _OTHER_DATE.fullmatch(value)]) >= _MOST_SHARE:
        return _left_out(column, "date format other than 2013-03-01")
    if share([count for value, count in column.frequent if is_number(value)]) >= 0.8:
        words = [value for value in column.values if not is_number(value)]
        return Role(column, PARSED, f"number, missing for {', '.join(map(repr, words[:3]))}: scaled")
    if column.words >= _MIN_WORDS and column.distinct > max(_MAX_CODE_VALUES, 0.2 * present):
        return Role(column, WORDS, "free text: averaged word embeddings")
    if column.distinct >= _MOST_SHARE * present and present > _MAX_CODE_VALUES:
        return _left_out(column, "identifier, almost all values are unique")
    return _category(column)


def _left_out(column: Column, reason: str) -> Role:
    return Role(column, LEFT_OUT, f"left out: {reason}")


def _category(column: Column) -> Role:
    size = min(column.distinct, VOCABULARY)
    most = f"the {size:,} most frequent of {column.distinct:,} values" if size < column.distinct else f"{size} values"
    has_missing_id = column.kind == INT and column.missing > 0  # a missing value becomes -1, which gets an ID, too
    return Role(column, CATEGORY, f"category with {most}: embedding", size + has_missing_id)
