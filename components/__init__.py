"""The TFX components; `Trainer` is importable from the package itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .trainer import Trainer

__all__ = ["Trainer"]


def __getattr__(name: str) -> object:
    if name == "Trainer":
        from .trainer import Trainer

        return Trainer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
