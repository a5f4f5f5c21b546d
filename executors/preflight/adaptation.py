"""Chooses alternative pipeline settings for a module from the outcome of a trial.

    settings = Settings()                           # a schema with shapes; transformed examples
    alternatives(settings, outcome, adjustable)     # [Settings(train_examples="raw")]

TFX's default wiring is tried first; alternatives only if the outcome suggests them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from ..dialects.restart import OtherSettings, other_settings
from ..inputs.example_kinds import RAW, TRANSFORMED
from ..inputs.message_text import closest_names

if TYPE_CHECKING:
    from .input_watch import Reads
    from .verdicts import Verdict

AUTO = "auto"
YES, NO = "yes", "no"
MAX_ATTEMPTS = 4
_PHASES = ("transform", "hyperparameters", "model", "training", "evaluation", "export")

# Messages of functions that expect a SparseTensor and get a Tensor, or vice versa.
_SPARSE = re.compile(r"no attribute '(indices|values|dense_shape|row_splits|to_tensor)'|[Ss]parse")
# Errors in the code, which do not depend on the examples.
_CODE_ERRORS = ("NameError", "UnboundLocalError", "ImportError", "ModuleNotFoundError", "SyntaxError", "MemoryError")


@dataclasses.dataclass(frozen=True)
class Settings:
    """Pipeline settings of one attempt.

    Attributes:
      train_examples: Examples that the Trainer reads if there is a Transform: RAW or TRANSFORMED.
      schema_shapes: Whether the inferred schema contains the features' shapes: YES or NO.
      keras: "2" or "3"; "" for the version chosen from the module's source.
    """

    train_examples: str = TRANSFORMED
    schema_shapes: str = YES
    keras: str = ""

    @classmethod
    def of(cls, train_examples: str, schema_shapes: str) -> Settings:
        """Returns the settings of the first attempt; AUTO selects transformed examples and a schema with shapes."""
        return cls(RAW if train_examples == RAW else TRANSFORMED, NO if schema_shapes == NO else YES)

    def __str__(self) -> str:
        schema = "a schema without shapes" if self.schema_shapes == NO else ""
        keras = f"Keras {self.keras}" if self.keras else ""
        return " and ".join(filter(None, ["raw examples" if self.train_examples == RAW else "", schema, keras]))


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The outcome of an attempt.

    Attributes:
      failure: The first failed verdict, or None.
      reads: How the input pipeline reads its examples, as recorded by `input_watch`.
      features: {RAW or TRANSFORMED: {feature: "BYTES", "FLOAT" or "INT"}}; only kinds of examples that were prepared.
    """

    failure: Verdict | None
    reads: Reads
    features: Mapping[str, Mapping[str, str]]

    def fits(self, settings: Settings) -> bool:
        """Whether the attempt passed, on examples that contain the features that the module parses."""
        lacks_features = settings.train_examples == RAW and self._missing_features(RAW, TRANSFORMED)
        return self.failure is None and not lacks_features

    def reason_for_raw(self, settings: Settings) -> str:
        """Returns why the module needs raw examples, or "" if it has got them, or without evidence that it does."""
        if settings.train_examples == RAW:
            return ""
        if absent := self._missing_features(TRANSFORMED, RAW):
            return f"the input pipeline parses {closest_names(absent)}, which only the raw examples have"
        if self.reads.get("transforms") and not self._missing_features(RAW, TRANSFORMED):
            return "the input pipeline applies the Transform graph itself"
        return ""

    def _missing_features(self, kind: str, other_kind: str) -> list[str]:
        """Returns parsed features that only examples of this kind lack, if the other kind lacks fewer in total."""
        parsed = self.reads.get("parsed") or {}
        if not {kind, other_kind} <= self.features.keys():  # without a Transform there is one kind
            return []
        missing, elsewhere = (
            [name for name, dtype in sorted(parsed.items()) if self.features[examples].get(name) != dtype]
            for examples in (kind, other_kind)
        )
        return [name for name in missing if name not in elsewhere] if len(elsewhere) < len(missing) else []


def alternatives(settings: Settings, outcome: Outcome, adjustable: Collection[str]) -> Iterator[tuple[Settings, str]]:
    """Yields (settings, reason) of further attempts, the most promising first.

    Args:
      settings: Settings of the last attempt.
      outcome: Its outcome.
      adjustable: Names of the fields of `Settings` that may be changed.
    """
    failed = outcome.failure
    other: OtherSettings = {}
    if failed and failed.error and "keras" in adjustable and not settings.keras:
        other = other_settings(failed.error.get("attributes", {}))
    keras = [(dataclasses.replace(settings, keras=other["version"]), other["reason"])] if "version" in other else []
    if keras and other["is_certain"]:
        yield from keras
        return
    with_raw = dataclasses.replace(settings, train_examples=RAW)
    can_use_raw = "train_examples" in adjustable and settings.train_examples == TRANSFORMED
    if can_use_raw and (why := outcome.reason_for_raw(settings)):
        yield with_raw, why
        can_use_raw = False
    if failed and failed.item in _PHASES:
        message = f"{failed.text}\n{failed.traceback.rstrip().rpartition(chr(10))[2]}"
        if "schema_shapes" in adjustable and settings.schema_shapes == YES and _SPARSE.search(message):
            why = "the module expects sparse tensors, and a schema with shapes produces dense ones"
            yield dataclasses.replace(settings, schema_shapes=NO), why
        may_be_data_error = failed.item != "transform" and not failed.text.startswith(_CODE_ERRORS)
        if can_use_raw and may_be_data_error and failed.error is not None and failed.exit_code == 1:
            yield with_raw, "the module fails on the transformed examples"
    yield from keras
