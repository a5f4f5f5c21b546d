"""Checkpoint directories, fingerprints of trainings, and asynchronous checkpoint writing."""
