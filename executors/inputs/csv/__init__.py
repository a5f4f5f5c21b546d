"""Delimited text as records, columns and tensors."""
