"""Sections of a run report that are built from a pipeline's artifacts and metadata."""
