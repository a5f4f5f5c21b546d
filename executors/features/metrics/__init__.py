"""Records the metrics of the published weights; for a training that failed, those logged or reported so far."""
