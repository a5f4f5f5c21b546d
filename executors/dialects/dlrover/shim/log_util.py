"""DLRover's logger, as a child of the trainer's logger. DLRover itself wrote a log file to the working directory."""

from __future__ import annotations

import logging as python_logging

from absl import logging

default_logger: python_logging.Logger = logging.get_absl_logger().getChild("dlrover.trainer")
default_logger.setLevel(python_logging.INFO)
