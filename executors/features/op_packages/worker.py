"""Collects the imported packages with custom ops."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ...saved_models.custom_ops import OpPackage, imported_op_packages, op_libraries_noted
from ...training.worker_callbacks import Context, WorkerCallback


class OpPackages(WorkerCallback):
    """Collects the packages that the module has imported by the end of its `run_fn`."""

    order = 10

    def loading(self) -> Context:
        """Notes which package loads which library."""
        return op_libraries_noted()

    @contextlib.contextmanager
    def around(self) -> Iterator[None]:
        """Collects the packages while the user's modules are there."""
        yield
        self._packages = imported_op_packages()

    def result(self, returned: object) -> dict[str, OpPackage]:
        """Returns the packages by name."""
        return self._packages
