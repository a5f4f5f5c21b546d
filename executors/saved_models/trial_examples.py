"""Examples to run a model on that is being checked: eval examples, a sample input, or a synthetic one from a schema."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import tensorflow as tf
from google.protobuf.message import DecodeError

from ..errors import InputError
from ..examples_format import has_examples
from ..inputs.example_kinds import RAW, TRANSFORMED
from ..inputs.input_format import format_of_payload
from ..inputs.synthetic_examples import generate
from ..inputs.tf_examples import features_in
from ..runtime.files.schema import read_schema
from .fitting_examples import kind_for
from .sample_input import SAMPLED_EXAMPLES, features_of

if TYPE_CHECKING:
    from .model_check import ModelCheckRequest
    from .sample_input import Value
    from .signatures import ServedSignature

_DTYPES = {bytes: "string", str: "string", float: "float32"}


@dataclasses.dataclass(frozen=True)
class Example:
    """One example, as serialized record and as features, for both kinds of signatures.

    Attributes:
      source: Description of its origin, for messages.
      serialized: The record's bytes; empty without a record.
      features: {name: values}; empty if the record is not a tf.Example.
      is_certain: Whether an error of the model on this example fails the check.
      is_real: Whether the values are those of an example, and not arbitrary.
      others: The next examples of the same source, for a batch.
    """

    source: str
    serialized: bytes = b""
    features: Mapping[str, list[Value]] = dataclasses.field(default_factory=dict)
    is_certain: bool = True
    is_real: bool = True
    others: tuple[Example, ...] = ()

    @property
    def dtypes(self) -> dict[str, str]:
        """{feature: "int64", "float32" or "string"} of it and of `others`, without features that have no value."""
        features = [item for example in (*self.others, self) for item in example.features.items()]
        return {name: _DTYPES.get(type(values[0]), "int64") for name, values in features if values}


def examples_for(request: ModelCheckRequest, signature: ServedSignature) -> Iterator[Example]:
    """Yields examples to try: real ones first, then the sample input, a synthetic example, and zeros."""
    yield from _real_examples(request, signature)
    arbitrary = functools.partial(Example, is_certain=False, is_real=False)
    if sample := request.example:
        source = sample["source"]
        yield from _with_others(
            arbitrary(f"example {number} from {source} on" if number > 1 else source, features=features)
            for number, features in enumerate(features_of(sample), 1)
        )[:1]
    if synthetic := _from_schema(request.schema_path, request.transform_graph_path):
        yield synthetic
    yield arbitrary("an input of zeros")


def _real_examples(request: ModelCheckRequest, signature: ServedSignature) -> Sequence[Example]:
    """Returns the first eval examples, if there is a Transform graph in the form that the signature takes."""
    examples = _first_examples(request.eval_files, request.payload)
    if not request.transform_graph_path:
        return examples
    raw = _first_examples(request.raw_eval_files, request.payload)
    by_kind = {kind: rows for kind, rows in ((RAW, raw), (TRANSFORMED, examples)) if rows}
    kind, _ = kind_for(signature, {kind: rows[0].dtypes for kind, rows in by_kind.items()})
    # Examples of the other kind may fit too, if all features that the signature parses are optional.
    return [
        dataclasses.replace(row, source=row.source.replace("eval example", f"{kind} eval example"), is_certain=False)
        for row in by_kind.get(kind, ())
    ]


def _first_examples(patterns: Sequence[str], payload: str) -> list[Example]:
    """Returns the first readable records of the files that match, each with the rest as its `others`."""
    return _with_others(itertools.islice(_examples(patterns, payload), SAMPLED_EXAMPLES))


def _with_others(examples: Iterable[Example]) -> list[Example]:
    rows = list(examples)
    return [dataclasses.replace(row, others=(*rows[i + 1 :], *rows[:i])) for i, row in enumerate(rows)]


def _examples(patterns: Sequence[str], payload: str) -> Iterator[Example]:
    number = itertools.count(1)
    form, are_examples = format_of_payload(payload), has_examples(payload)
    for path in sorted(path for pattern in patterns for path in tf.io.gfile.glob(pattern)):
        if tf.io.gfile.isdir(path):
            continue
        with contextlib.suppress(InputError):  # not a file of this format: the module has its own reader
            for batch in form.examples(path, 1):  # one by one, for those before a bad one
                [record] = batch.records
                yield Example(_source(next(number), path), record, _features(record) if are_examples else {})


def _source(number: int, path: str) -> str:
    return f"{'the first eval example' if number == 1 else f'eval example {number}'} ({path})"


def _from_schema(schema_path: str | None, transform_graph_path: str | None) -> Example | None:
    """Generates an example from a schema, that of raw examples before Transform first; None without one."""
    paths = [os.path.join(transform_graph_path, "metadata", "schema.pbtxt")] if transform_graph_path else []
    paths += [schema_path] if schema_path else []
    for path in paths:
        if tf.io.gfile.exists(path):
            [record] = generate(read_schema(path), 1, missing=0)
            source = f"a synthetic example from {path} (no real one is available: the values are arbitrary)"
            return Example(source, record, _features(record), is_certain=False, is_real=False)
    return None


def _features(record: bytes) -> dict[str, list[Value]]:
    try:
        return {name: values for name, _, values in features_in(record)}
    except DecodeError:  # the signature may parse something else
        return {}
