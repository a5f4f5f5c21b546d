"""The command line of a Kubeflow container."""

from __future__ import annotations

# An image without this package is a common mistake.
_CODE = """\
import importlib.util, runpy, sys
if importlib.util.find_spec('generic_trainer') is None:
    sys.exit('generic-trainer is not installed in this image: compile the pipeline with an image that contains it.')
runpy.run_module('{module}', run_name='__main__', alter_sys=True)"""


def step_command(module: str) -> list[str]:
    """Returns the command that runs a module below `generic_trainer.executors`; arguments can be appended."""
    return ["python3", "-c", _CODE.format(module=f"generic_trainer.executors.{module}")]
