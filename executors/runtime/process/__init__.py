"""Process identity, signals and process trees."""
