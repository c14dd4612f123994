"""Benchmarks of nimblepy beside its peers: `python -m bench --help`."""
