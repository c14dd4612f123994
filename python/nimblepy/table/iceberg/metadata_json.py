"""The JSON of metadata files with a long history. Old snapshots are
not serialized or parsed again.
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
        """The JSON of each snapshot.

        Args:
            table: its unique identifier.
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


class SnapshotObjects:
    """Caches the snapshots of tables as objects, from the previously read metadata file.

    The objects stay the same after other commits, so values that were computed from them are kept.
    """

    def __init__(self, most_tables: int) -> None:
        self._tables: LruCache[dict[str, tuple[dict[str, Any], Any]]] = LruCache(most_tables)

    def metadata(self, text: str, parse: Callable[[dict[str, Any]], Any]) -> Any:
        """Parses the metadata in a file; ``None`` if the snapshots cannot be separated.

        Args:
            parse: makes the metadata from the members of the file. A snapshot may be an object.

        Cost: parses the JSON, and makes only the snapshots that the previous file did not have.
        """
        try:
            members = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(members, dict) or members.get("format-version") != 2:
            return None
        table, snapshots = members.get("table-uuid"), members.get("snapshots")
        if not isinstance(table, str) or not isinstance(snapshots, list):
            return None
        if not all(isinstance(item, dict) for item in snapshots):
            return None
        cached = self._tables.get(table) or {}
        with_objects: list[Any] = []
        for item in snapshots:
            before, made = cached.get(str(item.get("snapshot-id")), (None, None))
            with_objects.append(made if before == item else copy.deepcopy(item))
        metadata = parse({**members, "snapshots": with_objects})
        both = zip(snapshots, metadata.snapshots, strict=True)
        kept = {str(item.get("snapshot-id")): (item, made) for item, made in both}
        self._tables.put(table, kept)
        return metadata


def with_snapshots(metadata: str, snapshots: Sequence[str]) -> str:
    """(a metadata file without its snapshots, the snapshots)."""
    if not metadata.endswith("}") or metadata == "{}":
        raise ValueError("the metadata is not a JSON object with members")
    return f'{metadata[:-1]},"snapshots":[{",".join(snapshots)}]}}'
