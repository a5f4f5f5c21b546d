"""Notes on an interrupt that the model had already been published."""
