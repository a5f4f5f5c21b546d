"""Training-module dialects: how a module was written decides how it becomes `run_fn(fn_args)`.

base.py        the class `Dialect`, which a third party subclasses
registry.py    the installed dialects, the choice among them, and `run_as`
loading.py     what the dialects decide before a module is imported
conversion.py  `generic-trainer convert`
signatures.py  what the signatures of a module's functions tell
"""

from .base import Dialect, Evidence, RunFn, function_in
from .registry import GROUP, choose, installed, run_as

__all__ = ["GROUP", "Dialect", "Evidence", "RunFn", "choose", "function_in", "installed", "run_as"]
