"""Private names of other libraries: one module per library, and no other place in this package uses any.

Each name says in which releases it holds and why no public API does the same. `tests/executors/compat` calls each of
them for real, so that a release that drops or changes one fails there.

A *hook point* is the owner and the name of a function that is watched, for `executors.keras.interception.replaced`.

No module here imports its library at import time.
"""
