"""Retries of requests to stores that fail temporarily. obstore retries by itself."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from nimblepy.errors import NimbleError
from nimblepy.io.log import logger

_log = logger(__name__)

T = TypeVar("T")


@dataclass(frozen=True)
class Retries:
    """Retries of requests with temporary failures, limited by number and total time."""

    attempts: int = 5
    first_delay: float = 0.05
    most_delay: float = 2.0
    seconds: float = 30.0

    def run(self, request: Callable[[], T], sleep: Callable[[float], None] = time.sleep) -> T:
        """Runs a request with retries. Delays double and are randomized, to spread the load.

        Raises:
            OSError: the last failure, with the number of attempts.
        """
        end = time.monotonic() + self.seconds
        delay = self.first_delay
        for attempt in range(1, self.attempts + 1):
            try:
                return request()
            except Exception as error:
                if is_permanent(error):
                    raise
                if attempt == self.attempts or time.monotonic() + delay > end:
                    raise OSError(f"{error} (tried {attempt} times)") from error
                _log.warning("attempt %d of %d failed: %s", attempt, self.attempts, error)
            sleep(delay * random.uniform(0.5, 1.0))
            delay = min(2 * delay, self.most_delay)
        raise AssertionError("attempts is at least 1")


_PERMANENT = (
    FileNotFoundError,
    PermissionError,
    IsADirectoryError,
    NotADirectoryError,
    NimbleError,
    ValueError,
    TypeError,
    RuntimeError,
    MemoryError,
)


def is_permanent(error: Exception) -> bool:
    """Returns whether a retry would fail too, for example because the object does not exist."""
    return isinstance(error, _PERMANENT)
