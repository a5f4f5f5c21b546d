"""The loggers of `elasticdl.python.common.log_utils`, which go where the trainer's own lines go."""

from __future__ import annotations

import logging as python_logging

from absl import logging


def get_logger(
    name: str, level: str | int = "INFO", *unused: object, **unused_options: object
) -> python_logging.Logger:
    """Returns a logger below absl's, so that where its lines go is decided in one place.

    Args:
      name: The logger's name.
      level: The least level that it passes on.
      *unused: Handlers and whether to replace them; the trainer's handlers serve all.
      **unused_options: The same by name.
    """
    logger: python_logging.Logger = logging.get_absl_logger().getChild(name)
    logger.setLevel(level)
    return logger


default_logger = get_logger("elasticdl")
