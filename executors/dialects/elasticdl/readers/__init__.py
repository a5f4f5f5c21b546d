"""Readers of the records of a model file: custom readers, MaxCompute tables, and files of any format."""
