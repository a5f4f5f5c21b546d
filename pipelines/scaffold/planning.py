"""Plans the generated module: label, preprocessing of each column, batch size and other template values."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from ...executors.errors import InputError
from .column_statistics import INT, TEXT, Column
from .labels import AUTO, REGRESSION, Label, choose_label
from .reading import RawData
from .roles import (
    CATEGORY,
    DATE,
    LEFT_OUT,
    MILLISECONDS,
    NUMBER,
    PARSED,
    SECONDS,
    WORDS,
    Role,
    choose_role,
)

_MIN_ROWS_FOR_BUCKETS = 1000
_WIDE = 50  # numeric columns, from which a linear model is hard to beat: the network gets a linear part
_LONG_TAIL_DEVIATIONS = 5.0  # a long tail: the maximum exceeds the mean by more standard deviations than this
# (maximum of rows, batch size, maximum of epochs); early stopping usually ends training before.
_SIZES = ((500, 16, 200), (5_000, 32, 60), (50_000, 64, 20), (math.inf, 256, 10))


@dataclasses.dataclass(frozen=True)
class Plan:
    """The plan of a generated training module.

    Attributes:
      raw: The data.
      label: The label.
      roles: Roles of all other columns, in the data's order.
    """

    raw: RawData
    label: Label
    roles: tuple[Role, ...]

    @property
    def transforms(self) -> bool:
        """Whether the module uses TensorFlow Transform, as for text, times and missing values.

        False only if all columns are numbers without missing values, which need scaling only, the label needs no
        conversion, and all rows were read: rows that were not read may have missing values.
        """
        plain_label = self.label.task == REGRESSION or self.label.are_ids
        plain = all(role.kind == NUMBER and not role.column.missing for role in self.used)
        return not (plain and plain_label and self.raw.is_whole)

    @property
    def used(self) -> tuple[Role, ...]:
        """The roles of the columns that are inputs of the model."""
        return tuple(role for role in self.roles if role.kind != LEFT_OUT)

    def names(self, *kinds: str) -> tuple[str, ...]:
        """Returns the names of the columns whose roles are of the given kinds."""
        return tuple(role.column.name for role in self.roles if role.kind in kinds)

    def constants(self) -> dict[str, Any]:
        """Returns the constants for the module templates: columns, category sizes and training parameters."""
        rows = self.raw.size
        batch_size, epochs = next((batch, epochs) for most, batch, epochs in _SIZES if rows <= most)
        numbers = self.label.column.numbers
        return {
            "label": self.label.column.name,
            "label_is_text": self.label.column.kind == TEXT,
            "label_mean": _round(numbers.mean) if numbers else 0.0,
            "label_std": _round(numbers.std) if numbers else 1.0,
            "task": self.label.task,
            "classes": self.label.classes,
            "warning": self.label.warning,
            "features": tuple(role.column.name for role in self.used),
            "integers": tuple(role.column.name for role in self.used if role.column.kind == INT),
            "numbers": self.names(NUMBER),
            "parsed": self.names(PARSED),
            "long_tailed": tuple(
                role.column.name for role in self.roles if role.kind == NUMBER and _has_long_tail(role)
            ),
            "buckets": 10 if rows >= _MIN_ROWS_FOR_BUCKETS else 0,
            "categories": {role.column.name: role.size for role in self.roles if role.kind == CATEGORY},
            "texts": self.names(WORDS),
            "dates": self.names(DATE),
            "timestamps": dict.fromkeys(self.names(SECONDS), 1) | dict.fromkeys(self.names(MILLISECONDS), 1000),
            "is_wide": len(self.names(NUMBER, PARSED)) >= _WIDE,
            "batch_size": batch_size,
            "epochs": epochs,
        }


def make_plan(raw: RawData, columns: Sequence[Column], label: str = "", task: str = AUTO) -> Plan:
    """Selects the label, the task and the role of each column.

    Args:
      raw: The data.
      columns: Type and statistics of each column.
      label: The label's name; "" to find it.
      task: "binary", "multiclass" or "regression"; "auto" derives it from the label's values.

    Raises:
      InputError: When no usable label is found, or no column is left as a feature.
    """
    found = choose_label(raw, columns, label, task)
    roles = tuple(choose_role(column) for column in columns if column.name != found.column.name)
    plan = Plan(raw, found, roles)
    if not plan.used:
        reasons = "; ".join(f"{role.column.name} is {role.why}" for role in roles[:10])
        raise InputError(f"--data {raw.path}: no columns are left to predict {found.column.name!r} from. {reasons}.")
    return plan


def _has_long_tail(role: Role) -> bool:
    numbers = role.column.numbers
    assert numbers is not None
    return numbers.smallest >= 0 and numbers.largest > numbers.mean + _LONG_TAIL_DEVIATIONS * numbers.std


def _round(number: float) -> float:
    return float(f"{number:.6g}")
