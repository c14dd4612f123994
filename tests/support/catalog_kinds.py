"""The kind of catalog that tests of tables use."""

from __future__ import annotations

import os

import pytest

needs_sqlite = pytest.mark.skipif(
    os.environ.get("NIMBLEPY_TEST_CATALOG") == "files",
    reason="it looks into the database of the catalog, and the tests use a catalog of files",
)
