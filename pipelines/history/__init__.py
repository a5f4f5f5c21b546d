"""Past runs from `run.json` files and ML Metadata: lookup, lineage and comparison."""
