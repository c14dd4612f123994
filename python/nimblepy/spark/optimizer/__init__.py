"""The rule in Spark's optimizer, its decisions, and the counterpart for Spark Connect."""
