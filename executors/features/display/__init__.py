"""Displays the phases of a run and the progress of the training."""
