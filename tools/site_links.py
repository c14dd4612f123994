"""A hook of mkdocs: the site has no files beside docs/, so a link to one becomes the name it has.

mkdocs.yml names this file.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#:\s]+)(?:#[^)\s]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    docs = Path(config["docs_dir"]).resolve()
    folder = (docs / page.file.src_uri).parent

    def shown(link: re.Match[str]) -> str:
        inside = (folder / link[2]).resolve().is_relative_to(docs)
        return link[0] if inside else link[1]

    return _LINK.sub(shown, markdown)
