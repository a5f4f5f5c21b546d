"""The warning of `set_lookup_embedding_func`, a method of ElasticDL's embedding layer and embedding column."""

from __future__ import annotations

from absl import logging


def warn_of_lookup(owner: str, func: object) -> None:
    """Logs that a lookup function has no effect."""
    name = getattr(func, "__name__", func)
    logging.warning(
        "%s: set_lookup_embedding_func(%s) has no effect. The vectors are weights of the model; use an initializer to "
        "set their initial values.",
        owner,
        name,
    )
