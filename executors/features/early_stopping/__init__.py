"""Stops a training early, restores the best weights, and fails when the loss becomes NaN.

`early_stop="val_loss:3"` ends a training when a metric has not improved in three evaluations. `best_model="val_auc"`
restores the weights of the best epoch when `fit` ends. Both apply to Keras's `fit` in any module; `early_stop` also
applies to Estimators, at each evaluation. `stop_on_nan` checks the loss of a `fit`, and the values passed to
`report_progress`, about once a second; Estimators always check the loss.
"""
