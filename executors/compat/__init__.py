"""Private names and patches of other libraries, one module per library; other packages use only public names.

Each module documents the releases in which a name exists and why no public API is equivalent. `tests/executors/compat`
calls each of them, so a release that removes or changes one fails there.

No module here imports its library at import time.
"""
