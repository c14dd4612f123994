"""Loggers. Levels: warning for problems, info for changes of data, debug for the rest.

Keys and values of rows are never logged. Without a logging configuration, nothing is printed.
"""

from __future__ import annotations

import logging

logging.getLogger("nimblepy").addHandler(logging.NullHandler())


def logger(module: str) -> logging.Logger:
    """Returns the logger of a module, below ``nimblepy``."""
    return logging.getLogger(module)
