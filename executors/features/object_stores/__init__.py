"""Trains on local copies of what is in an object store."""
