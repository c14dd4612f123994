"""The JSON of metadata files with a long history: old snapshots are not made or read again."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from typing import Any

from nimblepy.io.lru_cache import LruCache


class SnapshotTexts:
    """The JSON of the snapshots of tables, as it was made for the metadata file before."""

    def __init__(self, most_tables: int) -> None:
        self._tables: LruCache[dict[int, tuple[Any, str]]] = LruCache(most_tables)

    def of(self, table: str, snapshots: Sequence[Any], dump: Callable[[Any], str]) -> list[str]:
        """The JSON of each snapshot.

        Args:
            table: its unique identifier.
            snapshots: immutable objects; the same object has the same text.

        Cost: those are dumped that were not asked for the last time.
        """
        known = self._tables.get(table) or {}
        found: dict[int, tuple[Any, str]] = {}
        for item in snapshots:
            # The object is kept beside its text, so that its identity stays its own.
            found[id(item)] = known.get(id(item)) or (item, dump(item))
        self._tables.put(table, found)
        return [text for _, text in found.values()]


class SnapshotObjects:
    """The snapshots of tables as objects, as they were made of the metadata file read before.

    So they are the same objects when others have committed, and what was made of them is kept.
    """

    def __init__(self, most_tables: int) -> None:
        self._tables: LruCache[dict[str, tuple[dict[str, Any], Any]]] = LruCache(most_tables)

    def metadata(self, text: str, parse: Callable[[dict[str, Any]], Any]) -> Any:
        """The metadata in a file; ``None``: it is not of a form whose snapshots are told apart.

        Args:
            parse: makes it of the members of the file, in which a snapshot may be an object.

        Cost: beside reading JSON, those snapshots are made that were not in the file before.
        """
        try:
            said = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(said, dict) or said.get("format-version") != 2:
            return None
        table, snapshots = said.get("table-uuid"), said.get("snapshots")
        if not isinstance(table, str) or not isinstance(snapshots, list):
            return None
        if not all(isinstance(item, dict) for item in snapshots):
            return None
        known = self._tables.get(table) or {}
        found: list[Any] = []
        for item in snapshots:
            before, made = known.get(str(item.get("snapshot-id")), (None, None))
            found.append(made if before == item else copy.deepcopy(item))
        metadata = parse({**said, "snapshots": found})
        both = zip(snapshots, metadata.snapshots, strict=True)
        kept = {str(item.get("snapshot-id")): (item, made) for item, made in both}
        self._tables.put(table, kept)
        return metadata


def with_snapshots(metadata: str, snapshots: Sequence[str]) -> str:
    """A metadata file: an object without its snapshots, and these."""
    if not metadata.endswith("}") or metadata == "{}":
        raise ValueError("the metadata is no JSON object with members")
    return f'{metadata[:-1]},"snapshots":[{",".join(snapshots)}]}}'
