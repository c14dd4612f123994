"""Kernels of the core in C++, timed and counted one by one: `python -m bench.micro`."""
