"""What TensorFlow 2.16 to 2.21 lacks and tensorflow-estimator 2.15.0 imports: TensorFlow 2.15's own modules, anew.

They set and read the private attributes of RunConfig and Estimator, as the modules did that they take the place of.
"""
