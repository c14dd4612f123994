"""The commands that install nimblepy work in a checkout, and name extras that exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
    "optional-dependencies"
]
PAGES = [ROOT / "README.md", *(ROOT / "examples").glob("*.md")]
PAGES += [page for part in ("guide", "reference") for page in (ROOT / "docs" / part).rglob("*.md")]


def test_extras_are_installed_from_the_checkout() -> None:
    commands = [
        (page.name, command)
        for page in PAGES
        for command in re.findall(r"pip install [^`\n]*", page.read_text("utf-8"))
    ]
    assert len(commands) > 8
    for page, command in commands:
        assert "nimblepy[" not in command, f"{page}: {command}"  # it is not on PyPI
        for extras in re.findall(r"\.\[([a-z,]+)\]", command):
            assert set(extras.split(",")) <= set(EXTRAS), f"{page}: {command}"


def test_the_page_lists_every_extra() -> None:
    text = (ROOT / "docs" / "guide" / "install.md").read_text("utf-8")
    table = text.partition("## Extras")[2].partition("## A wheel")[0]
    first_cells = re.findall(r"^\| (`[^|]*)\|", table, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", " ".join(first_cells))) == set(EXTRAS) - {"bench"}
