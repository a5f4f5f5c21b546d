"""Checkpoint directories, fingerprints of what a checkpoint was made by, and asynchronous writing."""
