"""Kinds of examples: as ExampleGen wrote them, or as Transform did."""

RAW, TRANSFORMED = "raw", "transformed"
