"""Proves that a primary key is unique, because nimblepy made every commit.

nimblepy checks keys when it writes, but other engines do not. A commit records the proof in its
summary if its parent has it, or if the history is complete. So the proof remains when snapshots
expire.
"""

from __future__ import annotations

from nimblepy.table.base.model import Snapshot
from nimblepy.table.iceberg.metadata import Metadata

# Key in a snapshot's summary for the field ids of the primary key that is unique in the snapshot.
UNIQUE_KEY = "nimblepy.unique-key"
# The sequence number of a table's first snapshot.
_FIRST = 1


def key_is_proved(metadata: Metadata, snapshot: Snapshot | None, schema_id: int) -> bool:
    """Returns whether the history proves that a schema's primary key is unique in a snapshot."""
    key = _key(metadata, schema_id)
    if not key:
        return False
    if snapshot is None:
        return True
    for one in metadata.ancestors(snapshot):
        is_ours = one.summary.get("engine-name") == "nimblepy"
        if is_ours and UNIQUE_KEY in one.summary:
            return one.summary[UNIQUE_KEY] == key
        if not is_ours and one.operation != "replace":
            return False
        if one.schema_id is not None and _key(metadata, one.schema_id) != key:
            return False  # earlier rows had another key, or no key
        if one.sequence == _FIRST:  # expiry removes parents, so a missing parent proves nothing
            return True
    return False


def key_record(metadata: Metadata) -> dict[str, str]:
    """Returns the summary entry about the primary key for nimblepy's next commit."""
    schema_id = metadata.schema_id
    if not key_is_proved(metadata, metadata.head(), schema_id):
        return {}
    return {UNIQUE_KEY: _key(metadata, schema_id)}


def _key(metadata: Metadata, schema_id: int) -> str:
    """Returns the field ids of a primary key; empty without one, or if the schema was removed."""
    if schema_id not in metadata.field_ids():
        return ""
    return ",".join(map(str, sorted(metadata.ice_schema(schema_id).identifier_field_ids)))
