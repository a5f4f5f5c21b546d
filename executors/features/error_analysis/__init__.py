"""Plans the evaluation of the model, and compares its predictions with the labels of the eval split for the report."""
