"""The JSON of metadata files with a long history: old snapshots are not serialised again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nimblepy.table.base.recent import Recent


class SnapshotTexts:
    """The JSON of the snapshots of tables, as it was made for the metadata file before."""

    def __init__(self, most_tables: int) -> None:
        self._tables: Recent[dict[int, tuple[Any, str]]] = Recent(most_tables)

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


def with_snapshots(metadata: str, snapshots: Sequence[str]) -> str:
    """A metadata file: an object without its snapshots, and these."""
    if not metadata.endswith("}") or metadata == "{}":
        raise ValueError("the metadata is no JSON object with members")
    return f'{metadata[:-1]},"snapshots":[{",".join(snapshots)}]}}'
