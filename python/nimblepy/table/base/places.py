"""Where the files of a table lie: locations as metadata has them, and as files are opened."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from nimblepy.errors import InvalidArgumentError
from nimblepy.io.location import is_uri, locate

_MOST_NAME = 255
# Files of a store that it is asked for at the same time.
_ASKED_AT_ONCE = 16


def readable_path(location: str) -> str:
    """A location of the metadata as a path or URI that files are opened by."""
    if location.startswith("file:"):
        rest = location.removeprefix("file:")
        return rest[2:] if rest.startswith("//") else rest
    return location


def remove_file(location: str) -> None:
    """Removes a file; one that is not there is gone already.

    Raises:
        OSError: it cannot be removed.
    """
    locate(readable_path(location)).remove()


def exist(locations: Sequence[str]) -> list[bool]:
    """Which of some files may exist. Of a store it is not asked, and all of its files may."""
    paths = map(readable_path, locations)
    return [is_uri(path) or os.path.exists(path) for path in paths]


def missing(locations: Sequence[str]) -> list[str]:
    """Those of some files that certainly do not exist. Cost: in a store a request each."""
    if not any(is_uri(readable_path(location)) for location in locations):
        there = list(map(_may_exist, locations))
    else:
        with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
            there = list(pool.map(_may_exist, locations))
    return [location for location, found in zip(locations, there, strict=True) if not found]


def _may_exist(location: str) -> bool:
    try:
        return locate(readable_path(location)).exists()
    except Exception:  # a store that is not to be asked, or does not answer
        return True


def parse_name(name: str) -> tuple[str, ...]:
    """Namespaces and name of ``"shop.events"``.

    Raises:
        InvalidArgumentError: it cannot be the name of a table.
    """
    if not isinstance(name, str):
        raise InvalidArgumentError(f"table name: expected text, got {name!r}")
    parts = tuple(name.split("."))
    if len(parts) < 2:
        raise InvalidArgumentError(
            f"table name {name!r}: it needs a namespace, as in 'shop.{name or 'events'}'"
        )
    for part in parts:
        check_part(part, name)
    return parts


def check_part(part: str, name: str) -> None:
    """Refuses a namespace or name that is empty, too long, or has a slash or control character."""
    if not part or part != part.strip():
        raise InvalidArgumentError(
            f"table name {name!r}: a part of it is empty, or begins or ends with a space"
        )
    if len(part) > _MOST_NAME:
        raise InvalidArgumentError(f"table name: {len(part)} characters; at most {_MOST_NAME}")
    wrong = next((c for c in part if c in "/\\" or not c.isprintable()), None)
    if wrong is not None:
        raise InvalidArgumentError(f"table name {name!r}: it has the character {wrong!r}")


def new_location(warehouse: str, name: tuple[str, ...]) -> str:
    """A directory that no table has had: what people read in it of the name is only a hint."""
    shown = [re.sub(r"[^A-Za-z0-9_-]+", "_", part)[:40] for part in name]
    return "/".join([warehouse.rstrip("/"), *shown[:-1], f"{shown[-1]}-{uuid.uuid4().hex[:12]}"])
