"""Describes the origin of a run's recorded metrics, as text and as a mark on curves; see `metrics_of_record.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .run_json import Origin, RunJson


def origin_of(record: RunJson) -> Origin:
    """Returns the origin of the eval metrics, or of the train metrics without any; {} if unknown.

    Args:
      record: The content of run.json.
    """
    origins = record.get("metrics_from") or {}
    return origins.get("eval") or origins.get("train") or {}


def origin_line(record: RunJson) -> str:
    """Returns a description of the weights that were measured; "" if unknown.

    epoch 3 of 10, whose weights were published

    Without a checked model, the weights were not published.

    Args:
      record: The content of run.json.
    """
    origin = origin_of(record)
    weights, which = ("published", ", whose weights were published") if record.get("check") else ("final", "")
    if {"epoch", "epochs"} <= origin.keys():
        fit = f" of fit {origin.get('fit', 1)} of {origin['fits']}" if origin.get("fits", 1) > 1 else ""
        return f"epoch {origin['epoch']} of {origin['epochs']}{fit}{which}"
    if "step" in origin:
        return f"step {origin['step']:,}{which}"
    return {
        "evaluated again": f"the {weights} weights, evaluated after the training",
        "evaluate": f"the {weights} weights, evaluated by the module",
        "unknown": f"unknown weights; no evaluation used the {weights} ones",
    }.get(origin.get("source", ""), "")


def mark_of(record: RunJson, axis: str) -> int | None:
    """Returns the position of the published weights on a curve's axis, as TensorBoard counts; None if unknown.

    Args:
      record: The content of run.json.
      axis: "epoch" or "step". The epochs of several fits form one curve; only a position in the last fit is returned.
    """
    origin = origin_of(record)
    if axis == "epoch" and "epoch" in origin and origin.get("fit", 1) == origin.get("fits", 1):
        return int(origin["epoch"]) - 1
    return int(origin["step"]) if axis == "step" and "step" in origin else None


def weights_line(record: RunJson) -> str:
    """Returns that the metrics do not weight examples although the training does; "" if it is not so.

    Args:
      record: The content of run.json.
    """
    evidence = record.get("evaluation_evidence") or {}
    weights = evidence.get("weights")
    if not weights or evidence.get("weights_validation"):
        return ""
    return f"only the training has weights ({weights}); in the eval metrics, each example counts once"
