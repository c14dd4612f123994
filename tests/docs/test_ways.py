"""The pages that follow a call through the code name files and functions that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOTS = [ROOT / "cpp" / "nimble", ROOT / "python" / "nimblepy", ROOT]
PAGES = sorted((ROOT / "docs" / "internals").glob("way-of-a-*.md"))
FILE = re.compile(r"`([\w./]+\.(?:h|cc|cpp|py))`")


def find_file(name: str) -> Path | None:
    return next((root / name for root in ROOTS if (root / name).is_file()), None)


def rows_of(page: str) -> Iterator[tuple[str, list[str]]]:
    """(file, names in it) of every row of a table."""
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        files = [cell for cell in cells if FILE.fullmatch(cell)]
        if line.startswith("|") and files:
            names = cells[cells.index(files[0]) + 1]
            yield files[0].strip("`"), re.findall(r"`([^`]+)`", names)


def missing(page: str) -> list[str]:
    """Files and names that a page tells of and the code has not."""
    problems = [f"no file {name}" for name in FILE.findall(page) if find_file(name) is None]
    for name, functions in rows_of(page):
        file = find_file(name)
        text = file.read_text("utf-8") if file else ""
        problems += [
            f"{name} has no {function}"
            for function in functions
            if not re.search(rf"\b{re.escape(function)}\b", text)
        ]
    return problems


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_files_and_functions_that_are_named_exist(page: Path) -> None:
    text = page.read_text("utf-8")
    assert len(list(rows_of(text))) > 10
    assert missing(text) == []


def test_names_that_do_not_exist_are_found() -> None:
    page = "| 1 | `rows/rows.py` | `Rows`, `no_such_name` | text |\n| 2 | `rows/no.py` | `x` |\n"
    assert missing(page) == [
        "no file rows/no.py",
        "rows/rows.py has no no_such_name",
        "rows/no.py has no x",
    ]


def test_tests_that_hold_a_fault_exist() -> None:
    """The page of mended faults names Python tests and C++ tests, as `Suite.Name`."""
    decisions = ROOT / "docs" / "internals" / "decisions"
    page = (decisions / "0031-faults-of-the-readings.md").read_text("utf-8")
    tests = "\n".join(
        path.read_text("utf-8")
        for ending in ("py", "cc")
        for path in (ROOT / "tests").rglob(f"*.{ending}")
    )
    named = [name for name in re.findall(r"`(test_\w+)`", page) if f"def {name}(" not in tests]
    suites = re.findall(r"`([A-Z]\w+)\.([A-Z]\w+)`", page)
    named += [f"{s}.{n}" for s, n in suites if f"TEST({s}, {n})" not in tests]
    assert len(suites) > 10
    assert named == []
