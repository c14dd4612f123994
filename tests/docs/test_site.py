"""The site that `./dev docs` builds: it builds without a warning, and its links lead somewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytest.importorskip("mkdocs")
pytest.importorskip("mkdocstrings")

ROOT = Path(__file__).parents[2]


class Page(HTMLParser):
    """Where a page's links and images lead, and the names that links to it may have."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.names = {""}
        self.text = ""
        self.feed(text)

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is not None and name in ("href", "src"):
                self.links.append(value)
            elif value is not None and name in ("id", "name"):
                self.names.add(value)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Page]:
    site = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "-q", "--strict", "-d", str(site)]
    built = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    assert built.stderr == ""
    return {path.resolve(): Page(path.read_text("utf-8")) for path in site.rglob("*.html")}


def test_links_lead_to_pages_and_names(pages: dict[Path, Page]) -> None:
    assert len(pages) > 40
    broken = []
    for path, page in pages.items():
        if path.name == "404.html":  # its links are those of the server's root
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            known = pages.get(target)
            if not target.exists() or (known and unquote(parts.fragment) not in known.names):
                broken.append(f"{path.name}: {link}")
    assert broken == []


def test_code_is_shown_as_code(pages: dict[Path, Page]) -> None:
    assert [path.name for path, page in pages.items() if "```" in page.text] == []


def test_the_reference_shows_signatures_and_docstrings(pages: dict[Path, Page]) -> None:
    names = set().union(*(page.names for page in pages.values()))
    for name in ("File.get", "File.lookup", "Table.upsert", "Catalog.create_table", "write"):
        assert f"nimblepy.{name}" in names
