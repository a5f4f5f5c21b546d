"""Notes in a model's folder which packages it needs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...training.callbacks import RunCallback

if TYPE_CHECKING:
    from ...training.run_state import Run


class NeededPackages(RunCallback):
    """Notes in each model's folder the packages that its check has found to register its ops."""

    @contextlib.contextmanager
    def check(self, run: Run) -> Iterator[None]:
        """Notes the packages, for `predict` and the Evaluator."""
        yield
        for folder, report in run.reports.items():
            if report.op_packages:
                from ...saved_models.op_package_note import note_packages

                note_packages(folder, report.op_packages)
