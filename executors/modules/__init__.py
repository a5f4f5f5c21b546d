"""The user's training module: finding, loading, packing and reading its source."""
