"""Batch inference for an evaluation plan: computes labels and scores of raw serialized tf.Examples.

Usage:

    scorer = Scorer(plan, "model/Format-Serving", ExampleReader("transform_graph"))
    [scored] = score(records, [scorer])
    scored.labels["output_0"], scored.scores["output_0"]  # arrays [examples, numbers]
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InputError, did_you_mean
from ..inputs.csv.columns import from_tf_examples
from ..inputs.example_kinds import TRANSFORMED
from ..inputs.input_format import Batch
from ..inputs.message_text import join_names
from ..saved_models.feeding import Feeding
from ..saved_models.prediction.feed import feeding_of_batch
from ..saved_models.prediction.predict import answers_of
from ..saved_models.prediction.signature import load_signature
from .plan import EvaluationPlan, OutputPlan
from .scores import corrected_by_values, in_units_of_labels, labels_in, require_comparable, scores_in, targets_in

if TYPE_CHECKING:
    from .transforming import TransformGraph

T = TypeVar("T")
_SOURCE = "the eval split"
BATCH = 512


@dataclasses.dataclass(frozen=True)
class Features:
    """A decoded batch of examples.

    Attributes:
      records: Raw serialized tf.Examples.
      raw: {feature: Arrow array of lists}.
      transformed: {transformed feature: Arrow array of lists}; {} without a Transform graph.
    """

    records: Sequence[bytes]
    raw: Mapping[str, pa.ListArray]
    transformed: Mapping[str, pa.ListArray]

    def column(self, name: str, is_transformed: bool) -> pa.ListArray:
        """Returns a feature's Arrow array.

        Raises:
          InputError: If there is no such feature.
        """
        found = self.transformed if is_transformed else self.raw
        if name not in found:
            which = "transformed" if is_transformed else "raw"
            known = join_names(sorted(found)) or "none"
            raise InputError(
                f"the {which} examples have no feature {name!r}; they have {known}.{did_you_mean(name, found)}"
            )
        return found[name]


class ExampleReader:
    """Decodes and transforms batches of raw examples, shared by all models.

    Args:
      transform_graph: The Transform graph's folder, or None.
    """

    def __init__(self, transform_graph: str | None) -> None:
        self.transform_graph = transform_graph
        self._graph = _transform_graph(transform_graph) if transform_graph else None

    def features(self, records: Sequence[bytes]) -> Features:
        """Returns the features of raw serialized tf.Examples.

        Raises:
          InputError: If Transform fails on them, or changes the number of rows.
        """
        raw = from_tf_examples(Batch(_SOURCE, 1, len(records), records=list(records)))
        transformed = self._graph.columns(records) if self._graph else {}
        for name, column in transformed.items():
            if len(column) != len(records):
                raise InputError(f"Transform returned {len(column)} rows of {name} for {len(records)} examples.")
        return Features(records, raw, transformed)

    def transformed_records(self, features: Features) -> Sequence[bytes]:
        """Returns the transformed features as serialized tf.Examples.

        Raises:
          InputError: If there is no Transform graph.
        """
        if self._graph is None:
            raise InputError("the model takes transformed examples, but there is no Transform graph to compute them.")
        return self._graph.encoded(features.transformed)


def _transform_graph(folder: str) -> TransformGraph:
    from .transforming import TransformGraph  # imports tensorflow_transform: half a second

    return TransformGraph(folder)


@dataclasses.dataclass(frozen=True)
class Scored:
    """Examples with their labels and the scores of a model.

    Attributes:
      records: Raw serialized tf.Examples.
      labels: {output: array [examples, numbers]} of the outputs with a label; see `labels_in`.
      scores: The same of all outputs; see `scores_in`.
    """

    records: Sequence[bytes]
    labels: Mapping[str, np.ndarray]
    scores: Mapping[str, np.ndarray]


class Scorer:
    """Runs the signature of an evaluation plan, and compares its outputs with labels.

    Args:
      plan: The plan.
      model: The SavedModel's folder.
      reader: Decodes and transforms examples.
      op_packages: Packages to import first because they register ops; see `CheckReport`.
      name: In front of the text of errors, if there are several models.

    Attributes:
      plan: The plan; `correct_plan` may correct it.
      reader: The reader.
    """

    def __init__(
        self,
        plan: EvaluationPlan,
        model: str,
        reader: ExampleReader,
        op_packages: Mapping[str, Sequence[str]] | None = None,
        name: str = "",
    ) -> None:
        self.plan, self.reader = plan, reader
        self._name = name
        self._signature = load_signature(model, plan.signature or None, op_packages)
        self._feeding: Feeding | None = None

    @property
    def parsed_features(self) -> Set[str] | None:
        """The features that the signature parses or takes as tensors; None if unknown."""
        fed = self.plan.inputs
        inputs = self._signature.served.inputs
        parsings = [
            served.parsing for served in inputs if served.parsing and served.is_parsed and served.name not in fed
        ]
        if not all(parsing.features for parsing in parsings):
            return None
        parsed = {feature.name for parsing in parsings for feature in parsing.features}
        return parsed | {
            fed.get(served.name, served.name) for served in inputs if not served.is_parsed or served.name in fed
        }

    def answers(self, features: Features) -> dict[str, np.ndarray]:
        """Runs the signature on a batch; returns {output: array}.

        Raises:
          InputError: If the signature fails, or lacks an output of the plan.
        """
        is_transformed = self.plan.examples == TRANSFORMED
        records = self.reader.transformed_records(features) if is_transformed else features.records
        batch = Batch(_SOURCE, 1, len(records), records=list(records))
        found = answers_of(self._signature, batch, self._feeding_of(batch))
        for one in self.plan.outputs:
            if one.output not in found:
                known = join_names(sorted(found))
                raise InputError(f"signature {self._signature.name!r} has no output {one.output!r}; it has {known}.")
        return found

    def _feeding_of(self, batch: Batch) -> Feeding:
        """Returns what the plan feeds the signature; a plan without the examples' features is completed by a batch."""
        if self._feeding is None:
            fed = self.plan.inputs
            records = tuple(served.name for served in self._signature.served.inputs if served.name not in fed)
            self._feeding = Feeding(records, fed) if fed else feeding_of_batch(self._signature, batch, dict)
        return self._feeding

    def correct_plan(self, records: Sequence[bytes]) -> None:
        """Corrects the plan by the outputs for some examples; see `corrected_by_values` and `in_units_of_labels`.

        If the signature fails on some of them, the largest part without them counts.

        Raises:
          InputError: If it fails on all of them, or if no output is in the units of a label.
        """
        skipped: list[InputError] = []
        with self._named_errors():
            parts = bisected(
                records, lambda part: (len(part), self.answers(self.reader.features(part))), skipped.append
            )
            if not parts:
                raise skipped[0]
            _, answers = max(parts, key=lambda part: part[0])
            self.plan = corrected_by_values(in_units_of_labels(self.plan, answers), answers)

    def scores(self, features: Features) -> dict[str, np.ndarray]:
        """Returns {output: array [examples, numbers]} for a batch; see `scores_in`."""
        answers = self.answers(features)
        return {planned.output: scores_in(answers[planned.output], planned) for planned in self.plan.outputs}

    def scored(self, features: Features) -> Scored:
        """Returns a batch with its labels and scores.

        Raises:
          InputError: If an example has no label that matches its scores, or the signature fails on it.
          ScoresError: If an output's values contradict the plan's kind of scores.
        """
        with self._named_errors():
            scored = Scored(features.records, labels_of(features, self.plan.outputs), self.scores(features))
            require_all_comparable(scored.labels, scored.scores, self.plan)
            return scored

    @contextlib.contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except InputError as error:
            if not self._name:
                raise
            raise InputError(f"{self._name}: {error}") from error


def score(records: Sequence[bytes], scorers: Sequence[Scorer], *, skip_batches: bool = False) -> list[Scored]:
    """Returns the examples to which each scorer assigns scores; corrects the plans by the first batch with any.

    Args:
      records: Raw serialized tf.Examples.
      scorers: The models.
      skip_batches: Whether to skip the first batches if there are none in them; otherwise the first must have some.

    Raises:
      InputError: If there are none; the reason is that of the first example.
    """
    parts: list[list[Scored]] = []
    skipped: list[InputError] = []
    for start in range(0, len(records), BATCH):
        batch = records[start : start + BATCH]
        try:
            if not parts:
                for scorer in scorers:
                    scorer.correct_plan(batch)
            parts += bisected(
                batch, lambda part: [scorer.scored(scorer.reader.features(part)) for scorer in scorers], skipped.append
            )
        except InputError as error:  # of the corrections
            skipped.append(error)
        if not parts and not skip_batches:
            break
    if not parts:
        raise skipped[0]
    return [_joined(of_scorer) for of_scorer in zip(*parts, strict=True)]


def _joined(parts: Sequence[Scored]) -> Scored:
    return Scored(
        [record for part in parts for record in part.records],
        {name: np.concatenate([part.labels[name] for part in parts]) for name in parts[0].labels},
        {name: np.concatenate([part.scores[name] for part in parts]) for name in parts[0].scores},
    )


def bisected(
    records: Sequence[bytes], ask: Callable[[Sequence[bytes]], T], on_skip: Callable[[InputError], object]
) -> list[T]:
    """Returns `ask` of all records, or of the parts without those that cause an InputError, which are skipped."""
    try:
        return [ask(records)]
    except InputError as error:
        if len(records) == 1:
            on_skip(error)
            return []
        middle = len(records) // 2
        return [*bisected(records[:middle], ask, on_skip), *bisected(records[middle:], ask, on_skip)]


def labels_of(features: Features, outputs: Sequence[OutputPlan]) -> dict[str, np.ndarray]:
    """Returns {output: array [examples, numbers]} of the outputs' labels; see `labels_in`.

    Raises:
      InputError: If an example has no label, or a label that is not numeric and that the training does not convert.
    """
    return {
        one.output: labels_in(
            targets_in(_matrix(features.column(one.label, one.label_is_transformed), one.label), one), one
        )
        for one in outputs
        if one.label
    }


def require_all_comparable(
    labels: Mapping[str, np.ndarray], scores: Mapping[str, np.ndarray], plan: EvaluationPlan
) -> None:
    """Checks that labels and scores match, for all outputs with a label; see `require_comparable`.

    Raises:
      InputError: If a label does not match its output.
    """
    for one in plan.outputs:
        if one.output in labels:
            require_comparable(labels[one.output], scores[one.output], one)


def _matrix(column: pa.ListArray, name: str) -> np.ndarray:
    """Returns a column of lists as an array [examples, numbers].

    Raises:
      InputError: If an example has no value, or a different number of values than the first.
    """
    if pa.types.is_null(column.type):
        raise InputError(f"label {name} is missing in every example of a batch.")
    lengths = np.asarray(pc.fill_null(pc.list_value_length(column), 0))
    if not (lengths == lengths[0]).all() or lengths[0] == 0:
        odd = int(np.argmax(lengths != lengths[0])) if lengths[0] else 0
        raise InputError(
            f"label {name} has {lengths[0]} values in one example and {lengths[odd]} in another; all examples must "
            "have the same number."
        )
    matrix: np.ndarray = column.flatten().to_numpy(zero_copy_only=False).reshape(len(lengths), -1)
    return matrix
