"""Contains the only uses of pyiceberg's private names, each with a public fallback.

Each use checks whether the name exists, so a release of pyiceberg without it only makes nimblepy
slower.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.table import update as ice_update
from pyiceberg.table.update import update_table_metadata

from nimblepy.table.iceberg.version3 import (
    check_sequence,
    is_upgrade,
    upgraded,
    with_next_row_id,
)

# (owner, name) of all private names.
NAMES = (
    (ice_update, "_apply_table_update"),
    (ice_update, "_TableMetadataUpdateContext"),
    (ice_update, "_update_table_metadata_log"),
    (Catalog, "_convert_schema_if_needed"),
)


def updated_metadata(base: Any, updates: Sequence[Any], location: str) -> Any:
    """Returns the metadata after ``updates``.

    pyiceberg's public function copies all metadata deeply. Commits of tables with a long history
    would take several times as long (bench/tables/commits.py), so the result shares unchanged parts
    with ``base``.

    Args:
        location: the metadata file of ``base``, for the log.
    """
    if not all(hasattr(owner, name) for owner, name in NAMES):
        return _updated_publicly(base, updates, location)
    context = ice_update._TableMetadataUpdateContext()
    made = with_next_row_id(base)
    for update in updates:
        if is_upgrade(update, made):
            made = upgraded(made)
            context.add_update(update)
            continue
        check_sequence(update, made)
        made = ice_update._apply_table_update(update, made, context)
    if context.has_changes():
        made = ice_update._update_table_metadata_log(made, location, base.last_updated_ms)
        if made.last_updated_ms == base.last_updated_ms:
            made = made.model_copy(update={"last_updated_ms": int(time.time() * 1000)})
    made.spec().check_compatible(made.schema())
    made.sort_order().check_compatible(made.schema())
    return made


def _updated_publicly(base: Any, updates: Sequence[Any], location: str) -> Any:
    made = with_next_row_id(base)
    others = [update for update in updates if not is_upgrade(update, made)]
    made = made if len(others) == len(updates) else upgraded(made)
    for update in others:
        check_sequence(update, made)
    return update_table_metadata(made, tuple(others), metadata_location=location)


def iceberg_schema(schema: Any, format_version: int) -> Any:
    """Returns the Iceberg schema of an Arrow schema that a user of pyiceberg passes to
    ``create_table``.

    Raises:
        ValueError: the value is not a schema, or this version of pyiceberg cannot convert it.
    """
    if isinstance(schema, Schema):
        return schema
    convert = getattr(Catalog, "_convert_schema_if_needed", None)
    if convert is None:
        raise ValueError(f"schema: expected pyiceberg.schema.Schema, got {schema!r}")
    return convert(schema, format_version)


def staged_table(transaction: Any) -> tuple[Any, tuple[Any, ...]] | None:
    """Returns the new table of a transaction, which is not in the catalog yet, and the updates that
    create it.

    ``None`` if this version of pyiceberg does not show them.
    """
    table, updates = (getattr(transaction, name, None) for name in ("_table", "_updates"))
    return None if table is None or updates is None else (table, tuple(updates))
