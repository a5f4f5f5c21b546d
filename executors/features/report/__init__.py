"""Writes the report of a run, and keeps the files of a failed run outside of a folder that TFX deletes."""
