"""Selects the outputs of a signature to evaluate, and matches them to outputs of the trained model."""

from __future__ import annotations

from typing import TypeAlias

from ..saved_models.signatures import ServedOutput, ServedSignature
from .evidence import OutputEvidence, TrainingEvidence
from .plan import Overrides

# If a signature has several forms of one output, metrics are computed from the first name in this list.
_KEYS = (
    "logistic",
    "probabilities",
    "probability",
    "predictions",
    "prediction",
    "outputs",
    "scores",
    "score",
    "pred",
    "prob",
    "output_0",
    "logits",
)
Pair: TypeAlias = "tuple[ServedOutput, OutputEvidence | None]"


def pairs_of(signature: ServedSignature, evidence: TrainingEvidence | None, overrides: Overrides) -> list[Pair]:
    """Returns the outputs of a signature to evaluate, each with its training evidence or None, the main output first.

    Args:
      signature: The signature.
      evidence: Observations of the training; None if no Keras fit was observed.
      overrides: The user's options. `output` restricts the result to that output; the main label determines the order.
    """
    trained = evidence.outputs if evidence else ()
    scores = [one for one in signature.outputs if one.is_score]
    if overrides.output:
        return [
            (one, _by_name(one, trained) or _only(trained)) for one in signature.outputs if one.name == overrides.output
        ]
    if len(trained) <= 1:
        named = [output for output in overrides.labels if output]
        if len(named) > 1:
            return [(one, None) for one in scores if one.name in named]
        best = min(scores, key=lambda one: _rank(one, trained), default=None)
        return [] if best is None else [(best, _only(trained))]
    by_name = [(served, one) for one in trained for served in scores if served.name in _names(one)]
    if len(by_name) == len(trained):
        return _main_first(list(by_name), overrides)
    if len(scores) == len(trained):  # output_0, output_1, … are in the model's order
        return _main_first(list(zip(sorted(scores, key=_number), trained, strict=True)), overrides)
    if by_name:
        return _main_first(list(by_name), overrides)
    best = min(scores, key=lambda one: _rank(one, ()), default=None)
    return [] if best is None else [(best, None)]


def _main_first(pairs: list[Pair], overrides: Overrides) -> list[Pair]:
    """Moves the pair with the user's main label to the front."""
    main = overrides.labels.get("")
    return sorted(pairs, key=lambda pair: not (main and pair[1] is not None and main in (pair[1].key, pair[1].name)))


def _names(one: OutputEvidence) -> set[str]:
    return {name for name in (one.name, one.key) if name and not name.isdigit()}


def _by_name(served: ServedOutput, trained: tuple[OutputEvidence, ...]) -> OutputEvidence | None:
    return next((one for one in trained if served.name in _names(one)), None)


def _only(trained: tuple[OutputEvidence, ...]) -> OutputEvidence | None:
    return trained[0] if len(trained) == 1 else None


def _rank(served: ServedOutput, trained: tuple[OutputEvidence, ...]) -> tuple[bool, bool, int, str]:
    is_trained = any(served.name in _names(one) for one in trained)
    place = _KEYS.index(served.name) if served.name in _KEYS else len(_KEYS)
    is_probability = served.op in ("Sigmoid", "Softmax")
    return not is_trained, not (is_probability or place < len(_KEYS)), place, served.name


def _number(served: ServedOutput) -> tuple[int, str]:
    digits = served.name.rpartition("_")[2]
    return (int(digits) if digits.isdigit() else 0), served.name
