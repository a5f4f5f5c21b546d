"""Fuzzing harnesses for the parsers, one file per parser; see `run.py`."""
