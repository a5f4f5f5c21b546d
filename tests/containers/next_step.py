"""A Python component. Its annotations are no strings, which kfp does not understand."""

from kfp import dsl


def files_of(model: dsl.Input[dsl.Model]) -> str:
    """Returns the names in a model's folder."""
    import os

    return ",".join(sorted(os.listdir(model.path)))
