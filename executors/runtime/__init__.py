"""Processes, files and logs, for all packages above."""
