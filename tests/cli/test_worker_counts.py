"""A command's own flags for workers and parameter servers."""

from __future__ import annotations

from typing import Any

import pytest

from generic_trainer.cli.worker_counts import CountFlags, with_counts
from generic_trainer.executors.options import TrainingOptions


@pytest.mark.parametrize(
    ("own", "values", "needs_server", "workers", "ps"),
    [
        ({}, {}, False, "1", 0),
        ({}, {"num_workers": 3, "num_ps": 2}, False, "3", 2),
        ({}, {"num_workers": 3, "num_ps": None}, True, "3", 1),
        ({}, {"num_workers": 3, "num_ps": 0}, True, "3", 0),
        ({}, {"num_workers": 1}, True, "1", 0),
        ({"workers": "1:4"}, {"num_workers": 3}, True, "1:4", 1),
        ({"workers": "2", "ps": 3}, {"num_workers": 5, "num_ps": 1}, True, "2", 3),
    ],
)
def test_own_flags_take_precedence(
    own: dict[str, Any], values: dict[str, Any], needs_server: bool, workers: str, ps: int
) -> None:
    options = with_counts(
        TrainingOptions(engine="ray", **own), values, CountFlags("num_workers", "num_ps", needs_server)
    )

    assert (options.workers, options.ps) == (workers, ps)


def test_a_single_process_ignores_them() -> None:
    flags = CountFlags("num_workers", "num_ps", needs_server=True)
    assert with_counts(TrainingOptions(), {"num_workers": 3, "num_ps": 2}, flags) == TrainingOptions()
