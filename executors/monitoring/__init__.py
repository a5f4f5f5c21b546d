"""Monitoring of a run: progress, metrics, resources, profiles and the run record."""
