"""Restores the completed fits of an earlier attempt."""
