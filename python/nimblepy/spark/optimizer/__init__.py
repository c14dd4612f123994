"""The rule in Spark's optimizer, its decisions, and the same for Spark Connect."""
