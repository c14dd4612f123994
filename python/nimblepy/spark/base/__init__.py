"""Shared code of reading, writing and joins: inputs, options, types and task functions."""
