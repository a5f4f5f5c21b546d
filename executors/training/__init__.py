"""A training run, from loading the module to publishing the model."""
