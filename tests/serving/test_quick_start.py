"""A server that starts from its last manifests answers before it loads what opens tables."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("numpy", "pyarrow", "pyiceberg", "nimblepy.table.table")


def test_command_imports_no_tables_before_the_first_answer() -> None:
    code = (
        "import sys, nimblepy.cli.main, nimblepy.cli.serve\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
