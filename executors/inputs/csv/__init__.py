"""Parsing of CSV and other delimited text into records, columns and tensors."""
