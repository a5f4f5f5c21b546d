"""Samples the resources that a training uses, and writes its state for `watch`."""
