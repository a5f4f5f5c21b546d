"""Example training modules to copy and adapt; each is self-contained except `iris_tuner.py`."""
