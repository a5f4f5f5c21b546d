"""What model files import from ElasticDL, under its names. ElasticDL is archived and no longer installs.

    from generic_trainer.executors.dialects.elasticdl.shim import provide_elasticdl

    provide_elasticdl()
    from elasticdl.python.common.constants import Mode    # as in a model file

Names and behaviour are those of ElasticDL 0.1.0 to its last commit (contract elasticdl.md); the table is in `names`.
"""

from __future__ import annotations

from .names import provide_elasticdl

__all__ = ["provide_elasticdl"]
