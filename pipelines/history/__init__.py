"""Past runs: `run.json` files, ML Metadata, lineage and differences."""
