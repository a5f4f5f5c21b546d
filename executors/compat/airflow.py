"""Airflow 3 as TFX's AirflowDagRunner expects it.

TFX 1.21 imports `airflow.operators.python_operator`, the name of Airflow 1, which Airflow 3 no longer has; it passes
`provide_context`, which operators no longer accept; and it takes the run's ID from `ti.get_dagrun()`, which the task
instance of Airflow 3 has not. Tested with Airflow 3.3 by `make stacks-newest`.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import types
from collections.abc import Callable
from typing import Any

_OLD_NAME = "airflow.operators.python_operator"


def restore_python_operator() -> None:
    """Makes the old module importable, if it is not."""
    with contextlib.suppress(ImportError):
        importlib.import_module(_OLD_NAME)  # Airflow 2 makes it while it imports `airflow.operators`
        return
    from airflow.providers.standard.operators import python

    class PythonOperator(python.PythonOperator):  # type: ignore[misc]
        """An operator that accepts the arguments of older ones."""

        def __init__(
            self, *, python_callable: Callable[..., Any], provide_context: bool = True, **options: Any
        ) -> None:
            del provide_context
            super().__init__(python_callable=_with_dag_run(python_callable), **options)

    module = types.ModuleType(_OLD_NAME, __doc__)
    module.PythonOperator = PythonOperator  # type: ignore[attr-defined]
    sys.modules[_OLD_NAME] = module
    sys.modules["airflow.operators"].python_operator = module  # type: ignore[attr-defined]


def _with_dag_run(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(**context: Any) -> Any:
        dag_run = context["dag_run"]
        return function(**{**context, "ti": types.SimpleNamespace(get_dagrun=lambda: dag_run)})

    return call
