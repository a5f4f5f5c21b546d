"""Running a training module: TFX's executor, and everything below it."""
