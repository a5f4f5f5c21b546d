"""Evaluation of trained models: one plan per run, derived from observed losses, labels and graphs, not from source."""
