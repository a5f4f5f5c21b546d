"""What the commands print at the end: where things lie, and the evaluation's metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click


def workers_line(cluster: Mapping[str, Any]) -> str:
    """Returns who trained: "2, 4 after a failure" for two tries; "" where it was one process.

    Args:
      cluster: `RunRecord.cluster`.
    """
    first, *later = map(str, cluster.get("workers", [""]))
    return ", ".join([first, *(f"{count} after a failure" for count in later)])


def print_summary(places: Mapping[str, str | None], metrics: Mapping[str, Mapping[str, float]]) -> None:
    """Prints one line for each place and each metric to standard output.

    Args:
      places: {label: path}; those without a path are left out.
      metrics: {"train": {...}, "eval": {...}}; the eval metrics are shown, the train ones when there
        are no others.
    """
    for label, path in places.items():
        if path:
            click.echo(f"{label + ':':<14}{path}")
    split = "eval" if metrics.get("eval") else "train"
    values = metrics.get(split)
    if not values:
        click.echo("Metrics:      none (run_fn logged no scalars for TensorBoard and returned none)")
        return
    click.echo(f"{split.capitalize()} metrics:")
    width = max(map(len, values))
    for name, value in values.items():
        click.echo(f"  {name:<{width}}  {value:.5g}")
