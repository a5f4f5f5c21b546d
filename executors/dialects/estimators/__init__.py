"""The two Estimator dialects: `trainer_fn` modules and bare Estimators with a `model_fn`."""
