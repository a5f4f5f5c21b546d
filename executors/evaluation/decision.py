"""Makes the evaluation plan of a model from its signatures, its training and the features of the examples."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..inputs.example_kinds import RAW, TRANSFORMED
from ..saved_models.feeding import Feeding, feeding_of_dtypes
from ..saved_models.fitting_examples import kind_for
from ..saved_models.signatures import EXAMPLES_PREFIX, ServedSignature
from .evidence import LabelEvidence, OutputEvidence, TrainingEvidence
from .features import ExampleFeatures, Feature
from .labels import Choice, candidates_of, choose, converted_label, label_problem
from .outputs import Pair, choose_outputs, is_converted_back, is_fitted
from .plan import (
    MULTICLASS,
    MULTILABEL,
    SET_BY_OPTION,
    EvaluationPlan,
    OutputPlan,
    Overrides,
    reason_key,
)
from .tasks import label_facts, mapped_label_facts, scores_of, task_of

_NOT_FOR_SCORES = (
    "transform_features",
    "transformed_features",
    "transform_features_layer",
    "preprocess",
    "get_metadata",
)
_PREFERRED = ("serving_default", "predict")


def make_plan(
    evidence: TrainingEvidence | None,
    signatures: Sequence[ServedSignature],
    features: ExampleFeatures,
    overrides: Overrides,
) -> EvaluationPlan:
    """Returns the evaluation plan of a model.

    Uses the first signature with usable outputs and inputs. If there is none, the plan has only a `problem`.

    Args:
      evidence: Observations of its training; None if no Keras fit was observed.
      signatures: The model's signatures.
      features: Features of raw and transformed examples.
      overrides: The user's options. A label that is in no example results in a plan with a `problem`.
    """
    reasons: dict[str, str] = {}
    is_known = bool(features.raw or features.transformed)
    for label in overrides.labels.values():
        if is_known and (problem := label_problem(label, features.raw, features.transformed)):
            return EvaluationPlan(problem=f"--label: {problem}", reasons=reasons)
    trained_on = _trained_on(evidence, features)
    if overrides.signature:
        chosen = [one for one in signatures if one.name == overrides.signature]
        if not chosen:
            known = ", ".join(one.name for one in signatures) or "none"
            return EvaluationPlan(
                problem=f"--eval-signature: the model has no signature {overrides.signature!r}; it has {known}"
            )
        reasons["signature"] = SET_BY_OPTION
    else:
        chosen = _in_order(signatures)
    problems = []
    for signature in chosen:
        choice = choose_outputs(signature, evidence, overrides)
        if not choice.pairs:
            names = ", ".join(one.name for one in signature.outputs) or "none"
            what = f"no output {overrides.output!r}" if overrides.output else "no output with scores"
            problems.append(f"signature {signature.name} has {what}; its outputs: {names}")
            continue
        takes, why, feeding = _examples_for(signature, features, trained_on)
        if not takes:
            problems.append(why)
            continue
        reasons.setdefault("signature", "its outputs are scores and its inputs are known")
        reasons["examples"] = why
        inputs = evidence.inputs if evidence else ()
        reasons["output"] = choice.reason
        return EvaluationPlan(
            signature.name,
            takes,
            not feeding.records,
            _outputs(choice.pairs, features, overrides, trained_on, inputs, reasons),
            reasons=reasons,
            inputs=dict(feeding.features),
            is_guess=choice.is_guess,
            weights=evidence.weights if evidence else "",
        )
    problem = "; ".join(dict.fromkeys(problems)) or "the model has no signatures"
    remedy = "To evaluate the model, export a signature that takes serialized tf.Examples and returns scores"
    return EvaluationPlan(problem=f"{problem}. {remedy}.", reasons=reasons)


def _in_order(signatures: Sequence[ServedSignature]) -> list[ServedSignature]:
    """Returns the signatures that may return scores, in order of preference."""

    def rank(one: ServedSignature) -> tuple[bool, bool, int]:
        name = one.name.removeprefix(EXAMPLES_PREFIX)
        # An Estimator's signature of classes and scores is for TensorFlow Serving's Classify; prefer `predict`.
        classifies = {output.name for output in one.outputs} == {"classes", "scores"}
        place = _PREFERRED.index(name) if name in _PREFERRED else len(_PREFERRED)
        return classifies, not one.name.startswith(EXAMPLES_PREFIX), place

    return sorted((one for one in signatures if one.name not in _NOT_FOR_SCORES), key=rank)


def _trained_on(evidence: TrainingEvidence | None, features: ExampleFeatures) -> str:
    """Returns RAW or TRANSFORMED by the names of the features that a model was trained on; "" if ambiguous."""
    if features.transformed is None:
        return RAW
    names = set(evidence.inputs) if evidence else set()
    is_raw, is_transformed = names <= set(features.raw), names <= set(features.transformed)
    if not names or is_raw == is_transformed:
        return ""
    return RAW if is_raw else TRANSFORMED


def _examples_for(signature: ServedSignature, features: ExampleFeatures, trained_on: str) -> tuple[str, str, Feeding]:
    """Returns the kind of examples that a signature takes, the reason, and what its inputs are fed.

    If neither kind fits, returns "" and the problem.
    """
    if not features.raw and not features.transformed:
        records = tuple(served.name for served in signature.inputs if served.is_parsed)
        return RAW, "the features of the examples are unknown", Feeding(records)
    tables = {RAW: features.raw}
    if features.transformed is not None:
        tables[TRANSFORMED] = features.transformed
    dtypes = {kind: {name: one.dtype for name, one in table.items()} for kind, table in tables.items()}
    kind, why = kind_for(signature, dtypes, trained_on)
    if not kind:
        return "", why, Feeding()
    feeding = feeding_of_dtypes(signature, dtypes[kind])
    return kind, f"{why}; {feeding.line()}" if feeding.is_assumed else why, feeding


def _outputs(
    pairs: Sequence[Pair],
    features: ExampleFeatures,
    overrides: Overrides,
    trained_on: str,
    inputs: Collection[str],
    reasons: dict[str, str],
) -> tuple[OutputPlan, ...]:
    planned: list[OutputPlan] = []
    why: dict[str, dict[str, str]] = {}
    for number, (served, trained) in enumerate(pairs):
        y = trained.label if trained else None
        named = _label_named(served.name, trained, number == 0, features, overrides)
        candidates = candidates_of(named, features, inputs)
        converts = is_converted_back(served, trained)
        choice = choose(candidates, y, trained_on, is_converted_back=converts) if named else converted_label(y, inputs)
        feature = choice.candidate.feature if choice.candidate else None
        targets = choice.mapping.pairs if choice.mapping else ()
        labels = mapped_label_facts(y, targets) if targets else label_facts(y, feature)
        task, why_task = task_of(trained, served, labels)
        if overrides.task != "auto" and (number == 0 or not overrides.labels.get("")):
            task, why_task = overrides.task, SET_BY_OPTION
        scores, why_scores = scores_of(task, trained, served)
        if overrides.scores != "auto":
            scores, why_scores = overrides.scores, SET_BY_OPTION
        why[served.name] = {"label": choice.reason, "task": why_task, "scores": why_scores}
        planned.append(
            OutputPlan(
                served.name,
                task,
                feature.name if feature else "",
                choice.candidate.is_transformed if choice.candidate else False,
                _is_one_hot(task, feature, served.width, choice),
                _classes(task, served.width, y, feature),
                scores,
                trained.loss if trained else "",
                targets,
                choice.mapping.scale if choice.mapping and is_fitted(served, trained) else (),
            )
        )
    chosen = tuple([one for one in planned if one.label] or planned[:1])
    for number, one in enumerate(chosen):
        reasons |= {reason_key(part, one.output, number): reason for part, reason in why[one.output].items()}
    return chosen


def _label_named(
    output: str, trained: OutputEvidence | None, is_main: bool, features: ExampleFeatures, overrides: Overrides
) -> str:
    """Returns the label of an output: from the options, or the key of its label in `fit` if a feature has that name."""
    known: Collection[str] = {*features.raw, *(features.transformed or ())}
    keys = [output, *((trained.name, trained.key) if trained else ())]
    if label := next((overrides.labels[key] for key in keys if key in overrides.labels), ""):
        return label
    if trained and trained.key in known and not is_main:
        return trained.key
    if is_main and overrides.labels.get(""):
        return overrides.labels[""]
    return trained.key if trained and trained.key in known else ""


def _is_one_hot(task: str, feature: Feature | None, width: int | None, choice: Choice) -> bool:
    if task != MULTICLASS or feature is None or choice.one_hot_by_module:
        return False
    return feature.width is not None and feature.width > 1 and feature.width == (width or feature.width)


def _classes(task: str, width: int | None, y: LabelEvidence | None, feature: Feature | None) -> int:
    if task not in (MULTICLASS, MULTILABEL):
        return 0
    if width and width > 1:
        return width
    wide = [one for one in (y.width if y else None, feature.width if feature else None) if one and one > 1]
    return wide[0] if wide else 0
