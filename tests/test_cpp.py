"""Runs each C++ unit test as a pytest item of its own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = Path(os.environ.get("NIMBLEPY_CPP_TESTS", ROOT / "build" / "dev" / "nimble_tests"))


def list_tests() -> list[str]:
    if not PROGRAM.exists():
        return []
    listing = subprocess.run(
        [str(PROGRAM), "--list"], check=True, capture_output=True, text=True, timeout=60
    )
    return listing.stdout.split()


@pytest.mark.skipif(not PROGRAM.exists(), reason="no C++ test program: run ./dev build")
@pytest.mark.parametrize("name", list_tests())
def test_cpp(name: str) -> None:
    done = subprocess.run(
        [str(PROGRAM), name], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}{done.stderr}"
