"""The loggers of `elasticdl.python.common.log_utils`, as children of the trainer's logger."""

from __future__ import annotations

import logging as python_logging

from absl import logging


def get_logger(
    name: str, level: str | int = "INFO", *unused: object, **unused_options: object
) -> python_logging.Logger:
    """Returns a child of absl's logger, so that it uses the trainer's handlers.

    Args:
      name: The logger's name.
      level: The minimum level to log.
      *unused: Ignored (handlers, and whether to replace them).
      **unused_options: Ignored (the same as keyword arguments).
    """
    logger: python_logging.Logger = logging.get_absl_logger().getChild(name)
    logger.setLevel(level)
    return logger


default_logger = get_logger("elasticdl")
