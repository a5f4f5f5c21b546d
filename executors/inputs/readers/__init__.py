"""Readers of records by index range: custom ones, MaxCompute tables, and files of any kind."""
