"""Where rooms below those of files find what opens nimble files.

Rows in nimble files are input like those of any other format, but whoever reads input stands below
whoever opens these. So ``nimblepy/__init__.py``, which knows all rooms, puts the function here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# (path or URI of a file, a dataset or a table) -> what has its rows
open_rows: Callable[[str], Any] | None = None
