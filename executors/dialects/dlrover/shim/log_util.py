"""DLRover's logger, whose lines go where the trainer's own go. DLRover wrote a log file into the folder it ran in."""

from __future__ import annotations

import logging as python_logging

from absl import logging

default_logger: python_logging.Logger = logging.get_absl_logger().getChild("dlrover.trainer")
default_logger.setLevel(python_logging.INFO)
