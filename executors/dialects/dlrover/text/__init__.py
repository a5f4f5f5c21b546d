"""Rows of delimited text: reading the lines of a file, decoding them to tensors, and finding those that are invalid."""
