"""Sets properties of a table that nimblepy keeps itself."""

from __future__ import annotations

from collections.abc import Mapping

from nimblepy.table import iceberg as ice
from nimblepy.table.writing.access import TableAccess
from nimblepy.table.writing.commit import swapped


def set_properties(table: TableAccess, properties: Mapping[str, str]) -> None:
    """Commits properties, and moves the handle."""

    def attempt(metadata: ice.Metadata) -> ice.Metadata:
        evolution = ice.Evolution(metadata)
        evolution.set_properties(dict(properties))
        return evolution.commit()

    def is_made(metadata: ice.Metadata) -> bool:
        return properties.items() <= metadata.properties.items()

    operation = f"set_properties ({', '.join(properties)})"
    table.show(swapped(table.reload(), table.reload, attempt, is_made, operation=operation))
