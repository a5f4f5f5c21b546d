"""What the module is to be like: all that the templates are filled in with."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from ...executors.errors import InputError
from .labels import AUTO, REGRESSION, Label, label_of
from .looking import INT, TEXT, Column
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
    role_of,
)

_ROWS_FOR_BUCKETS = 1000
_LONG_TAIL = 5.0  # standard deviations between mean and largest
# (rows up to which, batch size, epochs at most): early stopping ends most trainings before.
_SIZES = ((500, 16, 200), (5_000, 32, 60), (50_000, 64, 20), (math.inf, 256, 10))


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a module will do.

    Attributes:
      raw: The data.
      label: The label.
      roles: Of every other column, in the data's order.
    """

    raw: RawData
    label: Label
    roles: tuple[Role, ...]

    @property
    def transforms(self) -> bool:
        """Whether Transform pays: for words, times and gaps. Numbers that are all there need scaling only.

        Of rows that were not read nobody knows whether they have gaps.
        """
        plain_label = self.label.task == REGRESSION or self.label.are_ids
        plain = all(role.kind == NUMBER and not role.column.missing for role in self.used)
        return not (plain and plain_label and self.raw.is_whole)

    @property
    def used(self) -> tuple[Role, ...]:
        """The columns that the model gets."""
        return tuple(role for role in self.roles if role.kind != LEFT_OUT)

    def names(self, *kinds: str) -> tuple[str, ...]:
        """Returns the names of the columns of some kinds."""
        return tuple(role.column.name for role in self.roles if role.kind in kinds)

    def constants(self) -> dict[str, Any]:
        """Returns what the templates of modules name: columns, sizes and the numbers of training."""
        rows = self.raw.size
        batch_size, epochs = next((batch, epochs) for most, batch, epochs in _SIZES if rows <= most)
        numbers = self.label.column.numbers
        return {
            "label": self.label.column.name,
            "label_is_text": self.label.column.kind == TEXT,
            "label_mean": _short(numbers.mean) if numbers else 0.0,
            "label_std": _short(numbers.std) if numbers else 1.0,
            "task": self.label.task,
            "classes": self.label.classes,
            "warning": self.label.warning,
            "features": tuple(role.column.name for role in self.used),
            "integers": tuple(role.column.name for role in self.used if role.column.kind == INT),
            "numbers": self.names(NUMBER),
            "parsed": self.names(PARSED),
            "long_tailed": tuple(role.column.name for role in self.roles if role.kind == NUMBER and _has_tail(role)),
            "buckets": 10 if rows >= _ROWS_FOR_BUCKETS else 0,
            "categories": {role.column.name: role.size for role in self.roles if role.kind == CATEGORY},
            "texts": self.names(WORDS),
            "dates": self.names(DATE),
            "timestamps": dict.fromkeys(self.names(SECONDS), 1) | dict.fromkeys(self.names(MILLISECONDS), 1000),
            "batch_size": batch_size,
            "epochs": epochs,
        }


def plan_for(raw: RawData, columns: Sequence[Column], label: str = "", task: str = AUTO) -> Plan:
    """Decides what is predicted, and what becomes of each column.

    Args:
      raw: The data.
      columns: What each column holds.
      label: The label's name; "" to look for it.
      task: "binary", "multiclass" or "regression"; "auto" goes by the label's values.

    Raises:
      InputError: When there is no label, or nothing that it could be predicted from.
    """
    found = label_of(raw, columns, label, task)
    roles = tuple(role_of(column) for column in columns if column.name != found.column.name)
    plan = Plan(raw, found, roles)
    if not plan.used:
        reasons = "; ".join(f"{role.column.name} is {role.why}" for role in roles[:10])
        raise InputError(f"--data {raw.path}: nothing is left to predict {found.column.name!r} from. {reasons}.")
    return plan


def _has_tail(role: Role) -> bool:
    numbers = role.column.numbers
    assert numbers is not None
    return numbers.smallest >= 0 and numbers.largest > numbers.mean + _LONG_TAIL * numbers.std


def _short(number: float) -> float:
    return float(f"{number:.6g}")
