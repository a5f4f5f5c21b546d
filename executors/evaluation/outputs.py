"""Selects the outputs of a signature to evaluate, and matches them to outputs of the trained model."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import TypeAlias

from ..inputs.message_text import join_names
from ..saved_models.signatures import ServedOutput, ServedSignature
from .evidence import OutputEvidence, TrainingEvidence
from .losses import TASK_OF_LOSS
from .plan import BINARY, MULTICLASS, REGRESSION, SET_BY_OPTION, Overrides

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
_FITTED, _SEVERAL_FITTED = "the fitted model computes it", "the fitted model computes them"
_ALIKE = "a layer of the fitted model, or a model of its architecture, computes it"
# Ops after which a score is no longer that of a class: confidence is the maximum of p and 1 - p, a margin an absolute
# value.
_SUMMARIES = ("Abs", "Max", "Maximum", "Mean", "Min", "Minimum", "Neg", "Prod", "Square", "Sum")
Pair: TypeAlias = "tuple[ServedOutput, OutputEvidence | None]"


@dataclasses.dataclass(frozen=True)
class OutputChoice:
    """The outputs to evaluate.

    Attributes:
      pairs: Each with its training evidence or None, the main output first.
      reason: Why these.
      is_guess: Whether nothing shows that they are what the training fitted.
    """

    pairs: tuple[Pair, ...] = ()
    reason: str = ""
    is_guess: bool = False


def choose_outputs(signature: ServedSignature, evidence: TrainingEvidence | None, overrides: Overrides) -> OutputChoice:
    """Returns the outputs of a signature to evaluate.

    Args:
      signature: The signature.
      evidence: Observations of the training, or None.
      overrides: The user's options. `output` restricts the result to that output; the main label determines the order.
    """
    trained = evidence.outputs if evidence else ()
    scores = [one for one in signature.outputs if one.is_score]
    if overrides.output:
        chosen = [one for one in signature.outputs if one.name == overrides.output]
        return OutputChoice(tuple((one, _by_name(one, trained) or _only(trained)) for one in chosen), SET_BY_OPTION)
    named = [output for output in overrides.labels if output]
    if len(trained) <= 1 and len(named) > 1:
        return OutputChoice(tuple((one, None) for one in scores if one.name in named), SET_BY_OPTION)
    if not scores:
        return OutputChoice()
    if len(trained) > 1:
        return _several(scores, trained, overrides)
    served, reason = _single(scores, evidence or TrainingEvidence(), overrides)
    if served is not None:
        return OutputChoice(((served, _only(trained)),), reason)
    return _guess(scores, _only(trained))


def is_fitted(served: ServedOutput, trained: OutputEvidence | None) -> bool:
    """Whether an output of the signature is a form of what the fitted model returns for its output."""
    return trained is not None and bool(_among([served], {*trained.tensors, *trained.alike}))


def is_converted_back(served: ServedOutput, trained: OutputEvidence | None) -> bool:
    """Whether the export computes an output from what the fitted model returns for a number.

    Trained on the logarithm or on standardized values, a model then usually answers in the units of the raw label.
    """
    if trained is None or TASK_OF_LOSS.get(trained.loss) != REGRESSION or is_fitted(served, trained):
        return False
    return not served.sources.isdisjoint({*trained.tensors, *trained.alike})


def _single(
    scores: Sequence[ServedOutput], evidence: TrainingEvidence, overrides: Overrides
) -> tuple[ServedOutput | None, str]:
    """Returns the output that a training of one output fitted and the reason; (None, "") if nothing shows it."""
    [trained, *_] = evidence.outputs or [OutputEvidence()]
    by_name = {served.name: served for served in scores}
    for name in (*overrides.labels.values(), trained.key, trained.name):
        if name in by_name:
            return by_name[name], "it has the name of the label or of the model's output"
    by_model = [(_FITTED, evidence.fitted_tensors), (_ALIKE, trained.alike)]
    fitted = next(((why, forms) for why, names in by_model if (forms := _among(scores, names))), (_FITTED, []))
    others = _among(scores, evidence.others)
    if fitted[1] and len({served.root for served in (*fitted[1], *others)}) > 1:
        return None, ""
    for reason, forms in (
        fitted,
        (_FITTED, others),
        (
            "the loss is computed from it",
            _with_forms([served for served in scores if served.name in evidence.loss_keys], scores),
        ),
        (
            "it is the only score" if len(scores) == 1 else "the others are forms of it",
            [] if _is_summary(scores[0], trained) else list(scores),
        ),
    ):
        if len({served.root for served in forms}) == 1:
            return min(forms, key=_rank), reason
    return None, ""


def _is_summary(served: ServedOutput, trained: OutputEvidence) -> bool:
    """Whether an output is computed from scores of classes, but is not the score of one."""
    return bool(trained.tensors) and TASK_OF_LOSS.get(trained.loss) in (BINARY, MULTICLASS) and served.op in _SUMMARIES


def _several(scores: Sequence[ServedOutput], trained: Sequence[OutputEvidence], overrides: Overrides) -> OutputChoice:
    pairs: list[Pair] = []
    for output in trained:
        named = [one for one in scores if one.name in _names(output)]
        forms = named or _among(scores, output.tensors) or _among(scores, output.alike)
        if len({one.root for one in forms}) == 1 or named:
            pairs.append((min(forms, key=_rank), output))
    if len(pairs) == len(trained):
        return OutputChoice(tuple(_main_first(pairs, overrides)), _SEVERAL_FITTED)
    if len(scores) == len(trained) and all(map(_is_numbered, scores)):
        numbered: list[Pair] = list(zip(sorted(scores, key=_number), trained, strict=True))
        return OutputChoice(tuple(_main_first(numbered, overrides)), "they are numbered in the model's order")
    if pairs:
        return OutputChoice(tuple(_main_first(pairs, overrides)), _SEVERAL_FITTED)
    return _guess(scores, None)


def _guess(scores: Sequence[ServedOutput], trained: OutputEvidence | None) -> OutputChoice:
    best = min(scores, key=_rank)
    names = join_names([one.name for one in scores])
    what = f"which of the outputs {names} the training fitted" if len(scores) > 1 else "that it is a score of a class"
    reason = f"a guess: nothing shows {what}; set --eval-output"
    return OutputChoice(((best, trained),), reason, is_guess=True)


def _among(scores: Sequence[ServedOutput], names: Collection[str]) -> list[ServedOutput]:
    """Returns the outputs that are forms of one of some tensors."""
    return [output for output in scores if not {*output.tensors}.isdisjoint(names)]


def _with_forms(chosen: Sequence[ServedOutput], scores: Sequence[ServedOutput]) -> list[ServedOutput]:
    roots = {one.root for one in chosen}
    return [one for one in scores if one.root in roots]


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


def _rank(served: ServedOutput) -> tuple[bool, int, str]:
    """The order of preference among forms of one output: probabilities, then the names in `_KEYS`."""
    place = _KEYS.index(served.name) if served.name in _KEYS else len(_KEYS)
    is_probability = served.op in ("Sigmoid", "Softmax")
    return not (is_probability or place < len(_KEYS)), place, served.name


def _is_numbered(served: ServedOutput) -> bool:
    return served.name.rpartition("_")[2].isdigit()


def _number(served: ServedOutput) -> tuple[int, str]:
    digits = served.name.rpartition("_")[2]
    return (int(digits) if digits.isdigit() else 0), served.name
