"""Converts locations in metadata to paths, and checks files and table names."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from nimblepy.errors import InvalidArgumentError
from nimblepy.io.location import is_uri, locate

_MOST_NAME = 255
# Maximum concurrent requests to a store.
_ASKED_AT_ONCE = 16


def readable_path(location: str) -> str:
    """Converts a location of the metadata to a path or URI that can be opened."""
    if location.startswith("file:"):
        rest = location.removeprefix("file:")
        return rest[2:] if rest.startswith("//") else rest
    return location


def has_catalog(directory: str | os.PathLike[str]) -> bool:
    """Returns whether a directory has a catalog of tables: a database, or files."""
    names = ("catalog.db", "nimble.catalog")
    return any(os.path.exists(os.path.join(directory, name)) for name in names)


def remove_file(location: str) -> None:
    """Removes a file if it exists.

    Raises:
        OSError: the file cannot be removed.
    """
    locate(readable_path(location)).remove()


def exist(locations: Sequence[str]) -> list[bool]:
    """Returns whether each file may exist.

    Sends no requests: true for all files in a store.
    """
    paths = map(readable_path, locations)
    return [is_uri(path) or os.path.exists(path) for path in paths]


def missing(locations: Sequence[str]) -> list[str]:
    """Returns the files that certainly do not exist. Cost: one request per file in a store."""
    if not any(is_uri(readable_path(location)) for location in locations):
        there = list(map(_may_exist, locations))
    else:
        with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
            there = list(pool.map(_may_exist, locations))
    return [location for location, exists in zip(locations, there, strict=True) if not exists]


def _may_exist(location: str) -> bool:
    try:
        return locate(readable_path(location)).exists()
    except Exception:  # access is forbidden, or the store does not answer
        return True


def parse_name(name: str) -> tuple[str, ...]:
    """Splits ``"shop.events"`` into namespaces and name.

    Raises:
        InvalidArgumentError: the text cannot be the name of a table.
    """
    if not isinstance(name, str):
        raise InvalidArgumentError(f"table name: expected text, got {name!r}")
    parts = tuple(name.split("."))
    if len(parts) < 2:
        raise InvalidArgumentError(
            f"table name {name!r}: add a namespace, as in 'shop.{name or 'events'}'"
        )
    for part in parts:
        check_part(part, name)
    return parts


def check_part(part: str, name: str) -> None:
    """Raises for a part of a name that is empty, too long, or has a slash or control character."""
    if not part or part != part.strip():
        raise InvalidArgumentError(
            f"table name {name!r}: a part is empty, or begins or ends with a space"
        )
    if len(part) > _MOST_NAME:
        raise InvalidArgumentError(
            f"table name: a part has {len(part)} characters; at most {_MOST_NAME} are allowed"
        )
    wrong = next((c for c in part if c in "/\\" or not c.isprintable()), None)
    if wrong is not None:
        raise InvalidArgumentError(f"table name {name!r}: character {wrong!r} is not allowed")


def new_location(warehouse: str, name: tuple[str, ...]) -> str:
    """Returns a new, unique directory for a table. The readable part of its name has no meaning."""
    shown = [re.sub(r"[^A-Za-z0-9_-]+", "_", part)[:40] for part in name]
    return "/".join([warehouse.rstrip("/"), *shown[:-1], f"{shown[-1]}-{uuid.uuid4().hex[:12]}"])
