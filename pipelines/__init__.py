"""TFX pipelines around the Trainer: definition, runners, submission, history and reports."""
