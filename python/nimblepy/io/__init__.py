"""Bytes in and out: locations, stores, tabular input, conversion, progress."""
