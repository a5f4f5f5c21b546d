"""Logs the run to MLflow."""
