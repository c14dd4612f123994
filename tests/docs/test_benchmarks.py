"""The tables of docs/benchmarks.md that come from bench/results are copies of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools" / "benchmarks_page.py"


def test_generated_tables_equal_the_results() -> None:
    done = subprocess.run(
        [sys.executable, str(TOOL), "--check"], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.returncode == 0
