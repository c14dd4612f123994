"""Copies the tables of bench/results into docs/benchmarks.md.

    python tools/benchmarks_page.py           # rewrites the page
    python tools/benchmarks_page.py --check   # fails if the page is out of date

A generated block stands between two comments. The first names a result file, optionally a section
of it, and optionally the beginning of the first line of the wanted paragraph:

    <!-- bench/results/bars.md#orders-10: | median -->
    <!-- end -->
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
BLOCK = re.compile(
    r"<!-- (bench/results/[\w.-]+)(?:#([\w-]+))?(?:: (.*?))? -->\n.*?<!-- end -->", re.DOTALL
)


def paragraphs(file: str, section: str | None) -> list[str]:
    """The paragraphs of a result file, or those below one of its headings."""
    text = (ROOT / file).read_text("utf-8")
    if file.endswith(".json"):
        instructions = json.loads(text)["instructions"]
        rows = [f"| `{name}` | {count:,.1f} |" for name, count in instructions.items()]
        return ["\n".join(["| kernel | instructions |", "| --- | ---: |", *rows])]
    if section is not None:
        text = re.split(rf"^## {re.escape(section)}$", text, flags=re.MULTILINE)[1]
        text = re.split(r"^## ", text, flags=re.MULTILINE)[0]
    return [part for part in text.strip().split("\n\n") if not part.startswith("# ")]


def filled(page: str) -> str:
    """The page with every generated block made anew."""

    def block(match: re.Match[str]) -> str:
        file, section, start = match.groups()
        parts = [p for p in paragraphs(file, section) if p.startswith(start or "")]
        if not parts:
            raise SystemExit(f"{match[0].splitlines()[0]}: nothing in {file} begins like that")
        return "\n\n".join([match[0].splitlines()[0], *parts, "<!-- end -->"])

    return BLOCK.sub(block, page)


def main() -> None:
    page = PAGE.read_text("utf-8")
    new = filled(page)
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(new, "utf-8")
    elif new != page:
        raise SystemExit("docs/benchmarks.md is out of date: run python tools/benchmarks_page.py")


if __name__ == "__main__":
    main()
