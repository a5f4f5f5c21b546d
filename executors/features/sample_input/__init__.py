"""Keeps an input of the training for the check of its model."""
