"""Nothing is in the repository that a run left behind."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_BYTES = 4 << 20


def tracked() -> list[str]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone")
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=False
    )
    if listed.returncode != 0:
        pytest.skip(listed.stderr.decode())
    return [name for name in listed.stdout.decode().split("\0") if name]


def test_the_top_level_has_sources_only() -> None:
    # Files of experiments, and 180 MB that DuckDB spilled, were committed by mistake.
    known = {
        *(".ci", ".clang-format", ".clang-tidy", ".dockerignore", ".gitignore"),
        *(".pre-commit-config.yaml", "CHANGELOG.md", "CMakeLists.txt", "Dockerfile", "LICENSE"),
        *("README.md", "SECURITY.md", "bench", "cmake", "cpp", "dev", "docs", "examples"),
        *("licences", "mkdocs.yml", "pyproject.toml", "python", "requirements", "schemas"),
        *("tests", "tools"),
    }
    assert {name.partition("/")[0] for name in tracked()} <= known


def test_no_file_is_large() -> None:
    sizes = {name: (ROOT / name).stat().st_size for name in tracked() if (ROOT / name).is_file()}
    assert {name: size for name, size in sizes.items() if size > MOST_BYTES} == {}
