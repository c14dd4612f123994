"""What pyiceberg lacks for tables of format version 3: their metadata, and the upgrade to it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Collection
from typing import Any

from pyiceberg.table.metadata import TableMetadataV3
from pyiceberg.table.update import AddSnapshotUpdate, UpgradeFormatVersionUpdate
from pyiceberg.types import GeometryType, IcebergType

# The first version with row ids and deletion vectors.
ROW_ID_VERSION = 3
# The versions of Iceberg's format that nimblepy writes.
VERSIONS = (2, 3)

# pyiceberg has no type ``variant``, so in memory a geometry with this reference system replaces it.
_STAND_IN = GeometryType("nimblepy.variant")
_STAND_IN_NAME = str(_STAND_IN)
_VARIANT = "variant"
# The members of a schema whose value is a type.
_TYPES = ("type", "element", "key", "value")


def is_variant_type(kind: IcebergType) -> bool:
    """Returns whether a type replaces Iceberg's type ``variant``."""
    return kind == _STAND_IN


def without_variants(data: bytes, location: str) -> bytes:
    """Returns the bytes of the metadata file at ``location`` with types that pyiceberg reads."""
    is_gzipped = location.endswith(".gz.metadata.json")
    plain = gzip.decompress(data) if is_gzipped else data
    if b'"variant"' not in plain:
        return data
    content = json.loads(plain)
    if not isinstance(content, dict) or content.get("format-version") != ROW_ID_VERSION:
        return data
    content["schemas"] = _renamed(content.get("schemas"), _VARIANT, _STAND_IN_NAME)
    made = json.dumps(content).encode()
    return gzip.compress(made) if is_gzipped else made


def with_variants(text: str) -> str:
    """Returns the JSON of metadata or of a schema, with Iceberg's name of the type."""
    if _STAND_IN_NAME not in text:
        return text
    return json.dumps(_renamed(json.loads(text), _STAND_IN_NAME, _VARIANT))


def _renamed(value: Any, old: str, new: str) -> Any:
    """Returns a schema, or something that contains schemas, with another name of a type."""
    if isinstance(value, list):
        return [_renamed(item, old, new) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: new if name in _TYPES and item == old else _renamed(item, old, new)
        for name, item in value.items()
    }


def metadata_json(metadata: Any, exclude: Collection[str] = (), *, shows_none: bool = False) -> str:
    """Returns the JSON of a table's metadata without some of its members.

    pyiceberg refuses to serialize version 3, although its base class does it as for version 2.

    Args:
        shows_none: whether to write members without a value.
    """
    left_out = set(exclude) or None
    if isinstance(metadata, TableMetadataV3):
        made = super(TableMetadataV3, metadata).model_dump_json(
            exclude_none=not shows_none, exclude=left_out
        )
    else:
        made = metadata.model_dump_json(exclude_none=not shows_none, exclude=left_out)
    return with_variants(str(made))


def is_upgrade(update: Any, metadata: Any) -> bool:
    """Returns whether an update upgrades metadata to version 3, which pyiceberg refuses."""
    return (
        isinstance(update, UpgradeFormatVersionUpdate)
        and update.format_version == ROW_ID_VERSION
        and metadata.format_version < ROW_ID_VERSION
    )


def upgraded(metadata: Any) -> Any:
    """Returns metadata of version 2 as metadata of version 3.

    Its rows get ids with the next snapshot.
    """
    members = {name: value for name, value in metadata if name in TableMetadataV3.model_fields}
    return TableMetadataV3.model_construct(**{**members, "format_version": 3, "next_row_id": 0})


def with_next_row_id(metadata: Any) -> Any:
    """Returns metadata in which version 3 has a next row id, which pyiceberg may omit."""
    if metadata.format_version < ROW_ID_VERSION or metadata.next_row_id is not None:
        return metadata
    return metadata.model_copy(update={"next_row_id": 0})


def check_sequence(update: Any, metadata: Any) -> None:
    """Raises ValueError if a snapshot does not follow the others.

    pyiceberg checks it only for version 2.
    """
    if not isinstance(update, AddSnapshotUpdate) or metadata.format_version < ROW_ID_VERSION:
        return
    number = update.snapshot.sequence_number
    if number is None or number <= metadata.last_sequence_number:
        raise ValueError(
            f"Cannot add snapshot with sequence number {number} older than last sequence number "
            f"{metadata.last_sequence_number}"
        )
