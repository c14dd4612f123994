"""Scans, samples and changes as DataFrames."""
