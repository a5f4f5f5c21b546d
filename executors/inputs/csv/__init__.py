"""Parsing of CSV into records and columns."""
