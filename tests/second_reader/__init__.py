"""A second reader of the format in plain Python, written from docs/format.

It does not share code with the core. Because it can read the files that the core writes, the
documentation of the format is complete. It decodes everything and is slow; `nimble verify` uses
the core and is fast.
"""

from __future__ import annotations

from second_reader.reader import read_table
from second_reader.walk import Report, verify_file

__all__ = ["Report", "read_table", "verify_file"]
