"""Sets table properties that nimblepy itself maintains."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nimblepy.table import iceberg as ice
from nimblepy.table.writing.access import TableAccess
from nimblepy.table.writing.commit import swapped


def set_properties(
    table: TableAccess, properties: Mapping[str, str] | Callable[[ice.Metadata], Mapping[str, str]]
) -> None:
    """Commits properties, and moves the handle.

    Args:
        properties: the values, or a function that gives them for the newest metadata. It is called
            again after a lost race.
    """

    def values(metadata: ice.Metadata) -> Mapping[str, str]:
        return properties(metadata) if callable(properties) else properties

    def attempt(metadata: ice.Metadata) -> ice.Metadata:
        if is_made(metadata):
            return metadata
        evolution = ice.Evolution(metadata)
        evolution.set_properties(dict(values(metadata)))
        return evolution.commit()

    def is_made(metadata: ice.Metadata) -> bool:
        return values(metadata).items() <= metadata.properties.items()

    operation = f"set_properties ({', '.join(values(table.newest()))})"
    table.show(swapped(table.reload(), table.reload, attempt, is_made, operation=operation))
