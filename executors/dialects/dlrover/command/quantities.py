"""Parses Kubernetes resource quantities, such as "500m" of CPU and "4Gi" of memory.

https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

from __future__ import annotations

import re

from ....errors import InputError
from ....number_range import AMOUNTS

_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(m|[kKMGTPE]i?|)")
_DECIMAL = {"": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {f"{letter}i": 1024.0**power for power, letter in enumerate("KMGTPE", 1)}


def processors(quantity: object, where: str) -> float:
    """Parses a number of processors or GPUs.

    Args:
      quantity: The quantity, such as 2, "500m" or "1e3".
      where: Location of the value, for the error message.

    Raises:
      InputError: When it is not a quantity, negative, or more than any machine has.
    """
    return _amount(quantity, 1.0, "", where)


def gigabytes(quantity: object, where: str) -> float:
    """Parses an amount of memory; returns it in units of 10^9 bytes.

    Args:
      quantity: The quantity, such as "4Gi" or 4e9.
      where: Location of the value, for the error message.

    Raises:
      InputError: When it is not a quantity, negative, or more than any machine has.
    """
    return _amount(quantity, 1e9, " GB", where)


def _amount(quantity: object, unit: float, name: str, where: str) -> float:
    match = _QUANTITY.fullmatch(str(quantity).strip())
    factor = {**_DECIMAL, **_BINARY}.get(match[2]) if match else None
    amount = float(match[1]) * factor / unit if match and factor else None
    if amount is None or not AMOUNTS.includes(amount):
        raise InputError(
            f"{where}: {quantity!r} is not a quantity such as 2, 500m or 4Gi, from 0 to {AMOUNTS.high:,}{name}."
        )
    return amount
