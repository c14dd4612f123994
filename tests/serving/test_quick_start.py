"""A server that starts from its last manifests answers before it loads what opens tables."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa

import nimblepy as nb

HEAVY = ("numpy", "pyarrow", "pyiceberg", "nimblepy.table.table")


def test_command_imports_no_tables_before_the_first_answer() -> None:
    code = (
        "import sys, nimblepy.cli.main, nimblepy.cli.serve\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_command_follows_without_pandas(tmp_path: Path) -> None:
    """pyarrow imports pandas to look at any list, and this takes 24 MB of the server's memory."""
    table = nb.connect(tmp_path / "lake", create=True).create_table(
        "shop.users", pa.schema([pa.field("id", pa.int64(), nullable=False)]), primary_key="id"
    )
    table.append([{"id": 1}])
    code = (
        "import sys, nimblepy.cli.main, nimblepy.cli.serve as cli\n"
        f"cli.run_follow({str(tmp_path / 'lake')!r}, ['shop.users'], None, poll=1.0, once=True)\n"
        "print([name for name in ('pyarrow', 'pandas') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "['pyarrow']"
    assert (tmp_path / "lake" / "serve" / "CURRENT").read_text().startswith("users ")
