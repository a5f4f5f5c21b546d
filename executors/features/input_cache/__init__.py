"""Caches parsed examples for later epochs and runs."""
