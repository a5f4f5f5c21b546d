"""The engine of a Ray cluster: starts workers on it, restarts lost ones, and follows its changes of size."""
