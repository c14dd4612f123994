"""A catalog for each test of tables."""

from __future__ import annotations

from pathlib import Path

import pytest

import nimblepy as nb

pytest.importorskip("pyiceberg")


@pytest.fixture
def lake(tmp_path: Path) -> nb.Catalog:
    return nb.connect(tmp_path / "lake")
