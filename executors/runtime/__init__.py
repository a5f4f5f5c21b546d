"""Processes, files and logs, for all layers above."""
