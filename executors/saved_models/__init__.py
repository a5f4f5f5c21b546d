"""SavedModels: staging, checking, publishing, and batch prediction."""
