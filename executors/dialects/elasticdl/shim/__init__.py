"""Shims for the names that model files import from ElasticDL, which is archived and no longer installable.

    from generic_trainer.executors.dialects.elasticdl.shim import provide_elasticdl

    provide_elasticdl()
    from elasticdl.python.common.constants import Mode    # as in a model file

Names and behavior are those of ElasticDL from 0.1.0 to its last commit (contract elasticdl.md); `names` has the mapping
of module names.
"""

from __future__ import annotations

from .names import provide_elasticdl

__all__ = ["provide_elasticdl"]
