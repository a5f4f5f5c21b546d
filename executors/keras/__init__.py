"""Keras: interception of `fit` and `evaluate`, resuming, early stopping and the callbacks of `callbacks(fn_args)`."""
