"""Finds the packages with TensorFlow custom ops that a module has imported: they are needed to load its model."""
