"""A hook of mkdocs: pages as the site takes them. mkdocs.yml names this file.

The site has no files beside docs/, so a link to one becomes the name it has. A fence has one word
there: what stands behind the language is for tests.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_FENCE = re.compile(r"^(```[a-z]+) .*$", re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#:\s]+)(?:#[^)\s]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    docs = Path(config["docs_dir"]).resolve()
    folder = (docs / page.file.src_uri).parent

    def shown(link: re.Match[str]) -> str:
        inside = (folder / link[2]).resolve().is_relative_to(docs)
        return link[0] if inside else link[1]

    return _FENCE.sub(r"\1", _LINK.sub(shown, markdown))
