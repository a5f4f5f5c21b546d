"""Modules of TensorFlow 2.15 that tensorflow-estimator 2.15.0 imports and TensorFlow 2.16 to 2.21 lacks, reimplemented.

They access private attributes of RunConfig and Estimator, as the original modules did.
"""
