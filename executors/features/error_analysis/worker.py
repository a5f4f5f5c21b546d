"""Observes what the training shows of the task, and the examples that it evaluates."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from ...errors import InputError
from ...evaluation import evaluated_examples
from ...evaluation import evidence as evaluation_evidence
from ...evaluation.evidence import TrainingEvidence
from ...examples_format import TF_EXAMPLE
from ...inputs.tfrecord.framing import frames
from ...runtime.files import file_io
from ...training.worker_callbacks import WorkerCallback


class Evidence(WorkerCallback):
    """Observes fits and evaluations."""

    order = 50

    @contextlib.contextmanager
    def around(self) -> Iterator[None]:
        """Observes them."""
        with (
            evaluated_examples.collecting(self._seconds_for_examples) as self._evaluated,
            evaluation_evidence.observed(self.request.source.files) as self._fits,
        ):
            yield

    def _seconds_for_examples(self) -> float:
        """Returns the time limit for evaluating examples here; 0 if the eval split is in TFRecord files of tf.Examples.

        Those are evaluated after the run, in another process and with the published model. So are tables of which the
        module evaluates nothing itself.
        """
        args, seconds = self.request.fn_args, self.request.options.analysis_seconds
        files = [path for pattern in args.eval_files or () for path in file_io.glob(pattern)]
        if args.examples_format.payload != TF_EXAMPLE or not files:
            return seconds
        with contextlib.suppress(InputError):  # raised for files of other formats
            if next(frames(files[0]), None):
                return 0.0
        return seconds

    def result(self, returned: object) -> dict[str, Any]:
        """Returns a `TrainingEvidence` as JSON; {} if no fit was observed. Writes the examples to the model run."""
        seen, examples = self._fits.evidence(), self._evaluated.examples
        if examples:
            seen = (seen or TrainingEvidence()).with_examples(examples.labels, examples.features)
        self._evaluated.save(self.request.fn_args.model_run_dir)
        return seen.to_json() if seen else {}
