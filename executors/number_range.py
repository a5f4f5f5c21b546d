"""The ranges of numbers that flags, options and parameters accept.

    PORTS = NumberRange(1, 65_535)
    PORTS.parse("8080")           # 8080
    PORTS.parse("nan")            # None
    PORTS.includes(2**70)         # False

Upper limits leave room for any machine, and fit into the integers of protobuf, TensorFlow and Kubernetes.
"""

from __future__ import annotations

import dataclasses
import numbers
import re
from typing import cast

_INTEGER = re.compile("-?[0-9]+")


@dataclasses.dataclass(frozen=True)
class NumberRange:
    """A range of integers or finite numbers; as text, a description such as "an integer from 1 to 65,535".

    Attributes:
      low: The lowest number.
      high: The highest number.
      is_whole: Whether numbers must be integers.
      is_open: Whether `low` itself is excluded.
    """

    low: float
    high: float
    is_whole: bool = True
    is_open: bool = False

    def parse(self, text: str) -> int | float | None:
        """Parses a number; returns None if the text is no number of the range.

        Integers are decimal digits: Python's `int` would also accept "1_0", " 1 ", "+1" and digits of other scripts.
        """
        if self.is_whole and not _INTEGER.fullmatch(text):
            return None
        try:
            number = int(text) if self.is_whole else float(text)
        except ValueError:  # also of integers with thousands of digits
            return None
        return number if self.includes(number) else None

    def includes(self, value: object) -> bool:
        """Whether a value is a number of the range; false for NaN and booleans."""
        kind = numbers.Integral if self.is_whole else numbers.Real
        if isinstance(value, bool) or not isinstance(value, kind):
            return False
        number = cast("float", value)
        return self.low <= number <= self.high and not (self.is_open and number == self.low)

    def __str__(self) -> str:
        kind = "an integer" if self.is_whole else "a number"
        if self.is_open:
            return f"{kind} above {self.low:,}, at most {self.high:,}"
        return f"{kind} from {self.low:,} to {self.high:,}"


_INT32, _INT64 = 2**31 - 1, 2**63 - 1
INT64 = NumberRange(-_INT64 - 1, _INT64)
STEPS = NumberRange(0, _INT64)  # also records, epochs, versions
POSITIVE = NumberRange(1, _INT64)
PIPELINE_STEPS = NumberRange(0, _INT32)  # the type of num_steps in TFX's TrainArgs
RETRIES = NumberRange(0, _INT32)  # the type in Kubernetes and Kubeflow Pipelines
RETRIES_OR_NO_LIMIT = NumberRange(-1, _INT32)
PORTS = NumberRange(1, 65_535)
PORTS_OR_ANY = NumberRange(0, 65_535)
TASKS = NumberRange(0, 1_000_000)  # workers, servers, processes; Kubernetes' clusters have at most 5,000 nodes
WORKERS = NumberRange(1, 1_000_000)
CPUS = NumberRange(0.001, 1_000_000, is_whole=False)  # Kubernetes' smallest amount is 1m
AMOUNTS = NumberRange(0, 1_000_000, is_whole=False)  # CPUs, GPUs or gigabytes, including none
GIGABYTES = NumberRange(0, 1_000_000, is_whole=False, is_open=True)  # up to a petabyte
SECONDS = NumberRange(0, 1_000_000_000, is_whole=False, is_open=True)  # up to 31 years
SECONDS_OR_NONE = NumberRange(0, 1_000_000_000, is_whole=False)
