"""A second reader of the format in plain Python, written from docs/format.

It shares no code with the core: that it reads what the core writes is the proof that the pages
suffice. It decodes everything, so it is slow; `nimble verify` checks a file at the core's speed.
"""

from __future__ import annotations

from nimblepy.verify.reader import read_table
from nimblepy.verify.walk import Report, verify_file

__all__ = ["Report", "read_table", "verify_file"]
