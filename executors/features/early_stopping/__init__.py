"""Stops a training early, restores the best weights, and fails when the loss becomes NaN."""
