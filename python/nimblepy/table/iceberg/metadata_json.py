"""Reads and writes the JSON of metadata files with a long history.

Old snapshots are not serialized again. Old snapshots and schemas are not parsed again.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from typing import Any

from nimblepy.io.lru_cache import LruCache


class SnapshotTexts:
    """Caches the JSON of the snapshots of tables, from the previous metadata file."""

    def __init__(self, most_tables: int) -> None:
        self._tables: LruCache[dict[int, tuple[Any, str]]] = LruCache(most_tables)

    def of(self, table: str, snapshots: Sequence[Any], dump: Callable[[Any], str]) -> list[str]:
        """Returns the JSON of each snapshot.

        Args:
            table: the table's unique identifier.
            snapshots: immutable objects; equal objects have equal text.

        Cost: serializes snapshots that were not in the previous call.
        """
        cached = self._tables.get(table) or {}
        texts: dict[int, tuple[Any, str]] = {}
        for item in snapshots:
            # Keeps the object with its text, so that its identity is not reused.
            texts[id(item)] = cached.get(id(item)) or (item, dump(item))
        self._tables.put(table, texts)
        return [text for _, text in texts.values()]


# The lists whose items are cached as objects, with the member that identifies an item.
_LISTS = {"snapshots": "snapshot-id", "schemas": "schema-id"}
# For each list and identity: the JSON of the item, and its object.
_Objects = dict[tuple[str, str], tuple[dict[str, Any], Any]]


class MetadataObjects:
    """Caches the snapshots and schemas of tables as objects, from the previous metadata file.

    The objects stay the same after other commits, so values that were computed from them are kept.
    """

    def __init__(self, most_tables: int) -> None:
        self._tables: LruCache[_Objects] = LruCache(most_tables)

    def metadata(self, text: str, parse: Callable[[dict[str, Any]], Any]) -> Any:
        """Parses the metadata in a file; returns ``None`` if its lists have another form than
        expected.

        Args:
            parse: makes the metadata from the members of the file. A snapshot or a schema may be an
                object.

        Cost: parses the JSON, and makes only the objects that the previous file did not have.
        """
        try:
            members = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(members, dict) or members.get("format-version") not in (2, 3):
            return None
        table = members.get("table-uuid")
        if not isinstance(table, str):
            return None
        cached = self._tables.get(table) or {}
        with_objects = dict(members)
        for name, identity in _LISTS.items():
            items = members.get(name)
            if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
                return None
            with_objects[name] = objects = []
            for item in items:
                before, made = cached.get((name, str(item.get(identity))), (None, None))
                objects.append(made if before == item else copy.deepcopy(item))
        metadata = parse(with_objects)
        kept: _Objects = {}
        for name, identity in _LISTS.items():
            for item, made in zip(members[name], getattr(metadata, name), strict=True):
                kept[name, str(item.get(identity))] = item, made
        self._tables.put(table, kept)
        return metadata


def with_snapshots(metadata: str, snapshots: Sequence[str]) -> str:
    """Returns (a metadata file without its snapshots, the snapshots)."""
    if not metadata.endswith("}") or metadata == "{}":
        raise ValueError("the metadata is not a JSON object with members")
    return f'{metadata[:-1]},"snapshots":[{",".join(snapshots)}]}}'
