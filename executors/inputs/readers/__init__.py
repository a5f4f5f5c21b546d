"""Record readers: custom readers, MaxCompute tables, and files of any format."""
