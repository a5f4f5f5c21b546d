"""Prevents concurrent runs in one folder."""
