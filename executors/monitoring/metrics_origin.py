"""Describes the origin of a run's recorded metrics, as text and as a mark on curves; see `metrics_of_record.py`."""

from __future__ import annotations

import dataclasses

from .run_record import RunRecord


@dataclasses.dataclass(frozen=True)
class Origin:
    """The origin of a split's metrics, in the record's part `metrics_from`.

    Attributes:
      source: "returned" by run_fn, a "fit", an "evaluate", "evaluated again", "logged" or "unknown".
      fit: The number of the fit.
      fits: The number of fits.
      epoch: The epoch whose weights were published, from 1; None without a fit.
      epochs: The number of epochs of the fit; None without a fit.
      step: The step of an Estimator; None for another one.
    """

    source: str = ""
    fit: int = 1
    fits: int = 1
    epoch: int | None = None
    epochs: int | None = None
    step: int | None = None


@dataclasses.dataclass(frozen=True)
class _Weighting:
    weights: str = ""
    weights_validation: bool = False


def origin_of(record: RunRecord) -> Origin:
    """Returns the origin of the eval metrics, or of the train metrics without any."""
    origins = record.part("metrics_from", dict[str, Origin])
    return origins.get("eval") or origins.get("train") or Origin()


def origin_line(record: RunRecord) -> str:
    """Returns a description of the weights that were measured; "" if unknown.

    epoch 3 of 10, whose weights were published

    Without a checked model, the weights were not published.
    """
    origin = origin_of(record)
    weights, which = ("published", ", whose weights were published") if record.check else ("final", "")
    if origin.epoch is not None and origin.epochs is not None:
        fit = f" of fit {origin.fit} of {origin.fits}" if origin.fits > 1 else ""
        return f"epoch {origin.epoch} of {origin.epochs}{fit}{which}"
    if origin.step is not None:
        return f"step {origin.step:,}{which}"
    return {
        "evaluated again": f"the {weights} weights, evaluated after the training",
        "evaluate": f"the {weights} weights, evaluated by the module",
        "unknown": f"unknown weights; no evaluation used the {weights} ones",
    }.get(origin.source, "")


def mark_of(record: RunRecord, axis: str) -> int | None:
    """Returns the position of the published weights on a curve's axis, as TensorBoard counts; None if unknown.

    Args:
      record: The record.
      axis: "epoch" or "step". The epochs of several fits form one curve; only a position in the last fit is returned.
    """
    origin = origin_of(record)
    if axis == "epoch" and origin.epoch is not None and origin.fit == origin.fits:
        return origin.epoch - 1
    return origin.step if axis == "step" else None


def weights_line(record: RunRecord) -> str:
    """Returns that the metrics do not weight examples although the training does; "" if it is not so."""
    weighting = record.part("evaluation_evidence", _Weighting)
    if not weighting.weights or weighting.weights_validation:
        return ""
    return f"only the training has weights ({weighting.weights}); in the eval metrics, each example counts once"
