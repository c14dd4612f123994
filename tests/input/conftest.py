"""Fixtures for tests of input."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pyarrow as pa
import pytest
from comes_back import check_comes_back


@pytest.fixture
def comes_back(path: str) -> Callable[[pa.Table], None]:
    """Writes a table and checks that every way of reading gives it back."""
    return partial(check_comes_back, path=path)
