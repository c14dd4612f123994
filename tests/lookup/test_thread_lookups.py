"""Eight threads on one handle with a small cache: right answers, in the memory that was allowed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.cost

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.no_sanitizer
@pytest.mark.parametrize(
    ("rows", "lookups", "cache", "how", "kept"),
    [
        # less than two groups: nearly every lookup loads one, and drops one that others may use
        (400_000, 4_000, 32 << 10, "read", 0),
        (400_000, 20_000, 1 << 20, "read", 0),
        (400_000, 20_000, 1 << 20, "mapped", 0),
        pytest.param(4_000_000, 1_000_000, 4 << 20, "mapped", 0, marks=pytest.mark.slow),
        pytest.param(4_000_000, 1_000_000, 4 << 20, "read, one arena", 0, marks=pytest.mark.slow),
        # what glibc keeps of eight arenas: docs/reference/concurrency.md
        pytest.param(4_000_000, 1_000_000, 4 << 20, "read", 20 << 20, marks=pytest.mark.slow),
    ],
)
def test_threads_get_right_answers_within_the_cache_and_32_mib(
    tmp_path: Path, rows: int, lookups: int, cache: int, how: str, kept: int
) -> None:
    options = [f"--rows={rows}", f"--lookups={lookups}", f"--cache={cache}"]
    if how != "mapped":
        options.append("--read")
    arenas = {"MALLOC_ARENA_MAX": "1"} if how == "read, one arena" else {}
    out = subprocess.run(
        [
            sys.executable,
            "-m",
            "bench.indexes.thread_lookups",
            str(tmp_path / "t.nimble"),
            *options,
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **arenas},
        check=False,
    )
    assert out.returncode == 0, out.stdout + out.stderr
    found = json.loads(out.stdout)
    assert found["lookups"] == 8 * lookups
    assert found["wrong"] == 0
    assert found["file bytes"] > cache
    assert found["most counted"] < 2 * cache + (16 << 20)
    assert found["gained"] < cache + (32 << 20) + kept
