"""Harnesses that fuzz the parsers, one file a parser; see `run.py`."""
