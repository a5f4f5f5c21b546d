"""The sections that a pipeline adds to a run report."""
