"""Processes, files and logs: the lowest layer, used by all other packages."""
