"""The reference has every public name, and the pages that mkdocs is told of are there."""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # doc_examples, under every import mode

from doc_examples import DOCS

import nimblepy as nb

API = DOCS / "reference" / "api"
ENTRIES = [
    name
    for page in sorted(API.glob("*.md"))
    for name in re.findall(r"^::: (\S+)$", page.read_text("utf-8"), re.MULTILINE)
]


def test_every_public_name_has_one_entry() -> None:
    """A new public name goes to one of the pages of docs/reference/api, as `::: nimblepy.name`."""
    assert len(set(ENTRIES)) == len(ENTRIES)
    assert [name for name in nb.__all__ if f"nimblepy.{name}" not in ENTRIES] == []


def test_entries_are_public_names() -> None:
    tops = [name.split(".") for name in ENTRIES if name.count(".") == 1]
    assert [name for _, name in tops if name not in nb.__all__] == []


def test_the_navigation_leads_to_pages() -> None:
    text = (DOCS.parent / "mkdocs.yml").read_text("utf-8")
    pages = re.findall(r"^ +- (?:\w+: )?(\S+\.md)$", text, re.MULTILINE)
    assert len(pages) > 20
    assert [page for page in pages if not (DOCS / page).exists()] == []
    left_out = {page.name for page in (DOCS / "guide").glob("*.md")} - {Path(p).name for p in pages}
    assert left_out == set()
