"""Entry point `python -m generic_trainer.executors.kubeflow_component_step`, used by compiled pipelines."""

from __future__ import annotations

import sys

from .kubeflow.component_step import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
