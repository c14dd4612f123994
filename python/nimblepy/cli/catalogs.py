"""Checks the catalogs of commands. Does not import the modules that open catalogs."""

from __future__ import annotations

import os

from nimblepy.errors import InvalidArgumentError
from nimblepy.table.base.places import has_catalog


def existing_catalog(text: str) -> str:
    """Returns a catalog's directory or URI. A directory must already be a catalog."""
    if ":" not in text and not has_catalog(text):
        if not os.path.exists(text):
            raise InvalidArgumentError(
                f"{text}: not a catalog of tables: the directory does not exist"
            )
        raise InvalidArgumentError(f"{text}: not a catalog of tables")
    return text
