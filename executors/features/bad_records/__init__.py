"""Records the bad records that were skipped."""
