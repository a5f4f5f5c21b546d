"""How a trained model is evaluated: one plan per run, made from what the program sees rather than from source text."""
