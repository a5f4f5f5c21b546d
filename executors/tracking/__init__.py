"""Logs runs to experiment trackers."""
