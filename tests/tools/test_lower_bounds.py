"""requirements/lower.txt has the lower bounds of pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.sanitizer

ROOT = Path(__file__).resolve().parents[2]


def bounds(lines: list[str], sign: str) -> dict[str, tuple[int, ...]]:
    found = (re.match(rf"([\w.-]+)(?:\[\w+\])?{sign}([\d.]+)", line) for line in lines)
    return {m[1]: tuple(map(int, m[2].split("."))) for m in found if m}


def test_lowest_versions_are_those_of_the_declared_bounds() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    declared = bounds(
        [
            *project["dependencies"],
            *(dep for extra in ("polars", "cloud", "table") for dep in extras[extra]),
        ],
        ">=",
    )
    tried = bounds((ROOT / "requirements" / "lower.txt").read_text("utf-8").splitlines(), "==")
    for name, bound in declared.items():
        assert tried[name][: len(bound)] == bound, name
