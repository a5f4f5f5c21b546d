"""One training run, from the module to the published model."""
