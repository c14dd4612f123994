"""What reading, writing and joins share: inputs, options, types, and task functions in Spark."""
