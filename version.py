"""The release this source tree builds."""

__version__ = "0.1.0"
