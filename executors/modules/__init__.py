"""The user's training module: finding, loading, packaging and reading its source."""
