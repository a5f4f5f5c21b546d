"""Training-module dialects: adapters that turn modules of different styles into `run_fn(fn_args)`.

base.py               the class `Dialect`, which third-party dialects subclass
registry.py           the installed dialects
selection.py          dialect selection for a module
needs.py              what a module needs, from the evidence in its source
loading.py            process preparation and the import of a module
restart.py            other starts of a worker, with settings that other_settings.py has noted on its exception
conversion.py         `generic-trainer convert`
converted_modules.py  the functions that a converted module calls: `prepare_for` and `run_as`
signatures.py         signature inspection and checks for a module's functions
"""

from .base import Dialect, Evidence, RunFn
from .registry import adapters, installed

__all__ = ["Dialect", "Evidence", "RunFn", "adapters", "installed"]
