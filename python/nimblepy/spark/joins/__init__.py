"""Index joins in Spark tasks, and the estimate of their costs."""
