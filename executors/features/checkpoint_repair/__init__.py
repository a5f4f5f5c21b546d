"""Records the damaged checkpoints that the training moved aside."""
