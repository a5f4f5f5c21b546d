"""Keeps logs that a module writes next to its model."""
