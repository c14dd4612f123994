"""Joins by the index in Spark's tasks, and the estimate of their costs."""
