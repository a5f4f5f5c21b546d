"""What every runner shares: the steps of a pipeline and their options."""
