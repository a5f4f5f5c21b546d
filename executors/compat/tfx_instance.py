"""Instances that are also instances of TFX's class of the same purpose, without importing TFX.

`tfx.components.trainer.fn_args_utils` imports TensorFlow, Beam and TFMA, which takes more than ten seconds. The classes
here therefore do not derive from TFX's. `isinstance(instance, TfxClass)` is only possible after that module has been
imported, and consults `instance.__class__`, which then is a subclass of both classes.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, ClassVar

_MODULE = "tfx.components.trainer.fn_args_utils"


class TfxInstance:
    """Base class of replacements for classes of `fn_args_utils`.

    Subclasses define `__reduce__` with `own_class`, because pickle rejects objects whose `__class__` is not their type.
    """

    __slots__ = ()
    _tfx_name: ClassVar[str]  # name of TFX's class

    @property  # type: ignore[misc]  # of object, it can be assigned
    def __class__(self) -> Any:
        """The class, or a subclass of it and of TFX's class if TFX's module is imported."""
        theirs = getattr(sys.modules.get(_MODULE), self._tfx_name, None)
        return type(self) if theirs is None else _derived(own_class(self), theirs)


@functools.cache
def _derived(own: type, theirs: type) -> type:
    return type(own.__name__, (own, theirs), {"__slots__": (), "__module__": own.__module__, "_own": own})


def own_class(instance: object) -> Any:
    """Returns the class of an instance without TFX's class as a base; that of `attr.evolve(instance)` has one."""
    return vars(type(instance)).get("_own", type(instance))
