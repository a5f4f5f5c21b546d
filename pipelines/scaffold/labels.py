"""Selects the label column and the task: binary or multiclass classification, or regression."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ...executors.errors import InputError, did_you_mean
from ...executors.inputs.csv.value_types import is_number
from ...executors.inputs.message_text import closest_names
from .column_statistics import FLOAT, INT, NOTHING, SEVERAL, TEXT, Column
from .reading import RawData
from .roles import DATE, LEFT_OUT, MILLISECONDS, PARSED, SECONDS, WORDS, choose_role

AUTO, BINARY, MULTICLASS, REGRESSION = TASKS = ("auto", "binary", "multiclass", "regression")
_COMMON_NAMES = ("label", "labels", "target", "class", "y", "outcome", "response")
_POSITIVE = ("1", "1.0", "yes", "y", "true", "t", "positive", "pos", "malignant", "spam", "fraud", "churn", "churned")
_MAX_CLASSES = 200
_MAX_INTEGER_CLASSES = 20  # maximum of distinct integers that are treated as classes
_IMBALANCED_SHARE = 0.8


@dataclasses.dataclass(frozen=True)
class Label:
    """The label column and its task.

    Attributes:
      column: The label's column.
      task: BINARY, MULTICLASS or REGRESSION.
      why: Why this column was selected, for display; "" if the user named it.
      classes: The label's values in the order of their class IDs, 0, 1, …; for BINARY the second one is the positive
        class. () for REGRESSION.
      warning: A warning about imbalanced classes, or about a value that is no number among numbers; "" without one.
    """

    column: Column
    task: str
    why: str
    classes: tuple[str | float, ...] = ()
    warning: str = ""

    @property
    def are_ids(self) -> bool:
        """Whether the label's values already are class IDs: 0, 1, 2 and so on."""
        return self.column.kind == INT and self.classes == tuple(range(len(self.classes)))


def choose_label(raw: RawData, columns: Sequence[Column], name: str = "", task: str = AUTO) -> Label:
    """Returns the label: the named column, or one found by common label names; for CSV also the last column.

    Args:
      raw: The data.
      columns: All columns.
      name: The label's name; "" to find it.
      task: One of `TASKS`; "auto" derives the task from the label's values.

    Raises:
      InputError: When there is no such column, no label is found, its values cannot be learned, or they do not fit
        the task.
    """
    require_column(name, raw)
    by_name = {column.name: column for column in columns}
    column, why = (by_name[name], "") if name else _find_label(raw, columns)
    _require_values(column, raw)
    task = _infer_task(column) if task == AUTO else task
    odd = _odd_value(column, raw)
    if odd and (task == REGRESSION or column.distinct > _MAX_CLASSES):
        raise InputError(f"{odd} Correct or remove such rows.")
    if task == REGRESSION:
        if column.kind == TEXT:
            raise InputError(f"--task regression: the label {column.name!r} is text, such as {column.values[0]!r}.")
        return Label(column, task, why)
    classes = _classes(column, task)
    if odd:
        return Label(column, task, why, classes, f"{odd} It becomes a class; remove such rows if it is none.")
    most, count = column.frequent[0]
    share = count / column.rows
    warning = f"{share:.0%} of the rows are {most!r}: always predicting it gives an accuracy of {share:.2f}."
    return Label(column, task, why, classes, warning if share >= _IMBALANCED_SHARE else "")


def _odd_value(column: Column, raw: RawData) -> str:
    """Returns a warning about the first value that is no number if most values of the label are numbers, or ""."""
    if column.kind != TEXT or choose_role(column).kind != PARSED:
        return ""
    values = (value for value in column.values if not is_number(str(value)))
    row, odd = min((raw.first_row(column.name, str(value)), value) for value in values)
    where = f"{raw.path}, row {row + 1}{' after the header' * raw.is_csv}"
    return f"{where}: the label {column.name!r} is {odd!r}, but most labels are numbers."


def require_column(name: str, raw: RawData) -> None:
    """Checks that a named label is in the data; "" passes.

    Raises:
      InputError: When it is not; the message lists the columns.
    """
    if name and name not in raw.columns:
        known = list(raw.columns)
        raise InputError(
            f"--label {name!r} is not in {raw.path}: {closest_names(known, near=name)}.{did_you_mean(name, known)}"
        )


def _find_label(raw: RawData, columns: Sequence[Column]) -> tuple[Column, str]:
    for usual in _COMMON_NAMES:
        for column in columns:
            if column.name.strip().lower() == usual:
                return column, "by its name"
    last = columns[-1]
    candidates = [column.name for column in columns if _may_be_label(column)]
    if raw.is_csv and last.name in candidates:
        return last, f"last column; none is named {', '.join(_COMMON_NAMES[:3])} or similar; change it with --label"
    reason = f"the last column, {last.name!r}, cannot be a label" if raw.is_csv else "tf.Examples have no last column"
    raise InputError(
        f"--label: no column of {raw.path} is named {', '.join(_COMMON_NAMES)}, and {reason}. "
        f"Set --label; suitable columns: {_join_names(candidates) or 'none'}."
    )


def _may_be_label(column: Column) -> bool:
    unsuitable = (LEFT_OUT, DATE, SECONDS, MILLISECONDS, WORDS)
    return not column.missing and choose_role(column).kind not in unsuitable


def _require_values(column: Column, raw: RawData) -> None:
    if column.kind in (NOTHING, SEVERAL):
        raise InputError(f"The label {column.name!r} cannot be learned: it has {column.kind}.")
    if column.missing:
        raise InputError(
            f"The label {column.name!r} is missing in {column.missing:,} of {column.rows:,} rows, first in row "
            f"{column.first_missing:,} of {raw.path}. Remove these rows, or choose another --label."
        )
    if column.distinct == 1:
        raise InputError(f"The label {column.name!r} is {column.values[0]!r} in every row: there is nothing to learn.")


def _infer_task(column: Column) -> str:
    whole = column.kind != FLOAT or all(float(value).is_integer() for value in column.values)
    if whole and column.distinct == 2:
        return BINARY
    if column.kind == TEXT or (column.kind == INT and column.distinct <= _MAX_INTEGER_CLASSES):
        return MULTICLASS
    return REGRESSION


def _classes(column: Column, task: str) -> tuple[str | float, ...]:
    if column.distinct > _MAX_CLASSES:
        raise InputError(
            f"The label {column.name!r} has {column.distinct:,} different values, such as {column.values[0]!r}: too "
            "many for classes. Choose another --label" + (", or --task regression." if column.kind != TEXT else ".")
        )
    if task == BINARY and column.distinct != 2:
        raise InputError(
            f"--task binary: the label {column.name!r} has {column.distinct} values; use --task multiclass."
        )
    classes = sorted(column.values)
    if task == BINARY:
        rarer = column.values[1]
        positive = next((value for value in classes if str(value).strip().lower() in _POSITIVE), rarer)
        classes = [next(value for value in classes if value != positive), positive]
    return tuple(classes)


def _join_names(names: Sequence[str], most: int = 20) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
