"""The click type of numbers, which rejects numbers outside a range when the command line is parsed."""

from __future__ import annotations

import click

from ..executors.number_range import NumberRange


class NumberType(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    """A number of a range; rejects NaN and infinity, which click's types accept.

    Args:
      numbers: The range.
    """

    def __init__(self, numbers: NumberRange) -> None:
        self.name = "integer" if numbers.is_whole else "float"
        self._numbers = numbers

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> int | float:
        """Returns the number.

        Raises:
          click.BadParameter: When the value is no number of the range; the message describes the range.
        """
        number = self._numbers.parse(str(value))
        if number is None:
            self.fail(f"{str(value)!r}: give {self._numbers}.", param, ctx)
        return number
