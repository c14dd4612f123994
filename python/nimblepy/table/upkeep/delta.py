"""Starts and stops the publication of a table as Delta."""

from __future__ import annotations

import functools

from nimblepy.table import iceberg as ice
from nimblepy.table.base.file_names import PUBLISHES_DELTA
from nimblepy.table.delta.publish import check, first_properties, publish
from nimblepy.table.writing.access import TableAccess
from nimblepy.table.writing.properties import set_properties


def publish_delta(table: TableAccess, keep: bool) -> int:
    """See :meth:`nimblepy.Table.publish_delta`."""
    # The names in the files of one version of the table are read once.
    first = functools.lru_cache(1)(first_properties)
    metadata = table.newest()
    check(metadata, first(metadata))

    def properties(newest: ice.Metadata) -> dict[str, str]:
        return first(newest)

    was = metadata.properties.get(PUBLISHES_DELTA, "false")
    set_properties(table, properties)
    try:
        version = publish(table.reload(), table.reload)
    except BaseException:
        set_properties(table, {PUBLISHES_DELTA: was})
        raise
    if not keep:
        set_properties(table, {PUBLISHES_DELTA: "false"})
    return version
