"""Whether a primary key is unique because nimblepy made every commit.

nimblepy checks keys on write; other engines do not. A commit says so in its summary if its parent
does or the history is complete, so the proof survives the expiry of snapshots.
"""

from __future__ import annotations

from nimblepy.table.base.model import Snapshot
from nimblepy.table.iceberg.metadata import Metadata

# In the summary of a snapshot: field ids of the primary key that is unique in it.
UNIQUE_KEY = "nimblepy.unique-key"
# The sequence number of a table's first snapshot.
_FIRST = 1


def key_is_proved(metadata: Metadata, snapshot: Snapshot | None, schema_id: int) -> bool:
    """Whether the history proves that the primary key of a schema is unique in a snapshot."""
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
            return False  # the rows before had another key, or none
        if one.sequence == _FIRST:  # expiry removes parents, so a missing parent proves nothing
            return True
    return False


def key_record(metadata: Metadata) -> dict[str, str]:
    """What the summary of nimblepy's next commit says of the primary key."""
    schema_id = metadata.schema_id
    if not key_is_proved(metadata, metadata.head(), schema_id):
        return {}
    return {UNIQUE_KEY: _key(metadata, schema_id)}


def _key(metadata: Metadata, schema_id: int) -> str:
    """Field ids of a primary key; empty without one, or if the schema is gone."""
    if schema_id not in metadata.field_ids():
        return ""
    return ",".join(map(str, sorted(metadata.ice_schema(schema_id).identifier_field_ids)))
