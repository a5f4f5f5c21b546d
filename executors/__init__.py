"""Runs a training module: the TFX executor and all packages below it."""
