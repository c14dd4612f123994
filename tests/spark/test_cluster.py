"""The same on executors of their own, and through Spark Connect; each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
HERE = Path(__file__).parent


@pytest.mark.parametrize("kind", ["cluster", "connect"])
def test_everything_works_on(kind: str, tmp_path: Path) -> None:
    paths = [str(HERE), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, str(HERE / "on_cluster.py"), kind, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert "all is well" in done.stdout, done.stderr[-4000:]
