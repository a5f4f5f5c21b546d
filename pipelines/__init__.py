"""Whole pipelines around the trainer, and where they run."""
