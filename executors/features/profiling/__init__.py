"""Records the profile of a training."""
