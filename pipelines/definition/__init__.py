"""The steps of a pipeline and their options, shared by all runners."""
