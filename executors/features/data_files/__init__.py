"""Records a run's code and data, so that runs can be compared."""
