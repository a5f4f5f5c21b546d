"""Example training modules; each is complete on its own and can be copied out and changed."""
