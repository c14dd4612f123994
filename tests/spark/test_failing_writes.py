"""A task that fails, is speculated, or is killed mid-write leaves the old data or the new."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
HERE = Path(__file__).parent


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and all of 127.0.0.0/8")
@pytest.mark.parametrize(
    "command",
    [
        ("failing_writes.py",),
        ("failing_table_writes.py",),
        pytest.param(("failing_table_writes.py", "--all"), marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_lost_attempts_change_nothing(command: tuple[str, ...], tmp_path: Path) -> None:
    what, *more = command
    paths = [str(HERE), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, str(HERE / what), str(tmp_path / "cluster"), *more],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert "all is well" in done.stdout, done.stdout + done.stderr[-4000:]
