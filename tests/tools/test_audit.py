"""tools/audit.py calls nothing clean that was not looked up."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.sanitizer

TOOL = Path(__file__).resolve().parents[2] / "tools" / "audit.py"
CLEAN = {"name": "a", "version": "1", "vulns": []}
KNOWN = {"name": "b", "version": "2", "vulns": [{"id": "CVE-1"}, {"id": "CVE-2"}]}
SKIPPED = {"name": "c", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("found", "status", "said"),
    [
        ([CLEAN], 0, "1 packages: 0 with advisories, 0 not looked up"),
        ([CLEAN, SKIPPED], 2, "c: NOT LOOKED UP: not found"),
        ([CLEAN, KNOWN, SKIPPED], 1, "b 2: CVE-1, CVE-2"),
        ([], 2, "0 packages"),
    ],
)
def test_verdict(found: list[dict[str, Any]], status: int, said: str) -> None:
    got, lines = runpy.run_path(str(TOOL))["judge"](found)
    assert got == status
    assert any(said in line for line in lines)
