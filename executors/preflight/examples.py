"""The examples of a check, which the module gets: prepared raw data, a sample of real examples, or synthetic ones."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from ..examples_format import TF_EXAMPLE
from ..inputs import synthetic_examples
from ..inputs.example_kinds import RAW, TRANSFORMED
from ..inputs.message_text import join_names
from ..inputs.tf_examples import write_gzipped
from ..runtime.files.schema import read_schema
from .events import EventReader, EventWriter
from .example_checks import ExampleChecks
from .example_facts import facts_of, facts_text
from .sample import RAW_EXAMPLES, holds_records, take
from .trial import failure
from .verdicts import PASSED, SKIPPED, WARNING, Verdict

if TYPE_CHECKING:
    from .request import PartRequest

_SYNTHETIC_EXAMPLES = 256
_WAIT_SECONDS = 0.05


class Examples(ExampleChecks):
    """The examples of one attempt.

    Args:
      request: The request to this process; `fn_args` of its run get the files of the sample.
      events: Gets the verdict.

    Attributes:
      are_examined: Whether `examine` was called.
      records: Estimated number of training examples of a run; 0 if unknown.
      raw_eval_files: Patterns of the raw evaluation examples; [] without raw data.
    """

    def __init__(self, request: PartRequest, events: EventWriter) -> None:
        super().__init__(request)
        self.are_examined = False
        self.records = 0
        self.raw_eval_files: list[str] = []
        self._events = events
        self._originals: dict[str, str] = {}  # of the files that the module gets, which are copies

    def examine(self) -> None:
        """Samples the examples, and adds the verdict on them."""
        self.are_examined = True
        if self._request.raw and not self._await_raw_data():
            return
        self._events.enter("examples")
        is_given = self._fn_args.train_files or self._fn_args.eval_files
        if is_given and {"train files", "eval files"} & set(self._request.failed):
            return
        try:
            verdict = self._real_verdict() if is_given else self._synthetic_verdict()
        except Exception as error:
            verdict = failure("examples", error, None, self._fn_args)
        self._events.verdict(verdict)

    def with_original_paths(self, text: str) -> str:
        """Replaces the paths of the sample's copies by those that the user gave."""
        for copied, original in sorted(self._originals.items(), reverse=True):  # a file before its folder
            text = text.replace(copied, original)
        return text

    def _await_raw_data(self) -> bool:
        """Waits for the process that prepares raw data; sets the module's arguments from its result if it has one."""
        self._events.enter("data")
        raw = EventReader([self._request.raw])
        while raw.prepared is None:
            time.sleep(_WAIT_SECONDS)
            raw.read()
        if not raw.prepared:
            self._events.has_failed = True  # the other process has written the verdict
            return False
        self.features = raw.prepared["features"]
        examples = raw.prepared["examples"]
        self.raw_eval_files = examples[RAW]["eval_files"]
        wanted = TRANSFORMED if TRANSFORMED in examples and self._request.check.train_examples != RAW else RAW
        for name, value in {**raw.prepared["fn_args"], **examples[wanted]}.items():
            setattr(self._fn_args, name, value)
        self._fn_args.transform_output = self._fn_args.transform_graph_path
        self._fn_args.schema_file = self._fn_args.schema_path
        return True

    def _synthetic_verdict(self) -> Verdict:
        """Generates synthetic examples from the schema, if there is one."""
        path = self.schema_path()
        if not path or "schema" in self._request.failed or self._fn_args.examples_format.payload != TF_EXAMPLE:
            self.hints.append(
                "No examples were given: set --train-files or --data, or --schema to generate synthetic ones."
            )
            text = "no examples (--train-files, --data) and no schema to generate synthetic ones from"
            return Verdict("examples", SKIPPED, text)
        records = synthetic_examples.generate(read_schema(path), _SYNTHETIC_EXAMPLES)
        for split in ("train", "eval"):
            folder = self._folder_of(split)
            write_gzipped(records, os.path.join(folder, "made-up.gz"))
            setattr(self._fn_args, f"{split}_files", [os.path.join(folder, "*")])
        shown = facts_text(facts_of(records), self._request.check.label)
        text = f"{len(records)} synthetic examples generated from {path}, no real ones: {shown}"
        return Verdict("examples", WARNING, text)

    def _real_verdict(self) -> Verdict:
        """Samples the examples, which the module gets instead of all."""
        fn_args = self._fn_args
        samples = {}
        for split in ("train", "eval"):
            if (patterns := getattr(fn_args, f"{split}_files")) and holds_records(patterns):
                samples[split] = take(patterns, self._folder_of(split))
                setattr(fn_args, f"{split}_files", samples[split].patterns)
                self._originals.update(samples[split].originals)
        if not samples:
            shown = join_names([*fn_args.train_files, *fn_args.eval_files])
            return Verdict("examples", PASSED, f"{shown}: no records; the module reads them itself")
        if "train" in samples:
            known = self._request.raw
            self.records = fn_args.num_examples["train"] if known else samples["train"].estimated_records
        return self.verdict(samples)

    def _folder_of(self, split: str) -> str:
        return os.path.join(self._request.folder, RAW_EXAMPLES, f"Split-{split}")
