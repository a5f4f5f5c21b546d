"""Record readers: custom readers, MaxCompute tables, files of any format, and reading by index range."""
