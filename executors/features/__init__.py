"""Features of a run, each registered as a callback; the rest of the trainer works without any of them."""
