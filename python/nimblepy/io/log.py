"""Loggers. Warnings are for what may need somebody, info for what was changed, debug for the rest.

No key and no value of a row is ever logged. A program that sets up no logging sees nothing.
"""

from __future__ import annotations

import logging

logging.getLogger("nimblepy").addHandler(logging.NullHandler())


def logger(module: str) -> logging.Logger:
    """The logger of a module, below ``nimblepy``."""
    return logging.getLogger(module)
