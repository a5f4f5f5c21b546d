"""Finds the output that is in the units of a label, if the training converts the label to other units.

A training may fit the logarithm of a price, or its distance from the mean in standard deviations. The model's output
is then in these units; a further output of the signature may be the price itself.

    scale = scale_of(np.array([1.0, 10.0, …]), np.array([0.0, 1.0, …]))  # ((1.0, 0.0), (10.0, 1.0), …)
    outputs_in_units(scale, np.array([[0.5]]), {"price": np.array([[3.2]])})  # ["price"]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .plan import Scale

_FEWEST = 20  # rows with different targets: other features are not in the order of the targets by chance
_POINTS = 200  # of a scale
_EQUAL = 1e-5  # relative difference of values that went through float32
_MOST = 0.9  # of the values of an output in these units are between those of the next points of the scale


def scale_of(values: np.ndarray, targets: np.ndarray) -> Scale:
    """Returns the scale of numbers that determine the targets in order, without being equal to them; () otherwise."""
    order = np.argsort(values, kind="stable")
    values, targets = values[order], targets[order]
    steps, slack = np.diff(targets), _EQUAL * np.ptp(targets)  # equal values may have targets with other last digits
    is_ordered = (steps >= -slack).all() or (steps <= slack).all()
    is_equal = np.allclose(values, targets, rtol=_EQUAL, atol=_EQUAL * np.ptp(values))
    count = np.count_nonzero(np.diff(values)) + 1
    targets, first = np.unique(targets, return_index=True)
    if not is_ordered or is_equal or min(count, len(targets)) < _FEWEST:
        return ()
    points = np.unique(np.linspace(0, len(targets) - 1, _POINTS).astype(int))
    return tuple(zip(values[first][points].tolist(), targets[points].tolist(), strict=True))


def outputs_in_units(scale: Scale, fitted: np.ndarray, answers: Mapping[str, np.ndarray]) -> list[str]:
    """Returns the outputs whose values are those of the fitted output in the units of the label.

    Args:
      scale: The label's scale.
      fitted: The fitted output for some examples.
      answers: {output: its values for the same examples}.
    """
    values, targets = np.array(scale).T
    above = np.asarray(np.searchsorted(targets, fitted.ravel()))
    is_known = (above > 0) & (above < len(targets))
    ends = np.sort([values[above[is_known] - 1], values[above[is_known]]], axis=0)
    low, high = ends + _EQUAL * abs(ends) * [[-1.0], [1.0]]
    numbers = {
        name: array.ravel()[is_known]
        for name, array in answers.items()
        if array.dtype.kind == "f" and array.size == fitted.size and is_known.any()
    }
    return [name for name, own in numbers.items() if ((low <= own) & (own <= high)).mean() >= _MOST]
