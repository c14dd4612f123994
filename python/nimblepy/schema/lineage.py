"""The columns of row lineage, which tables of Iceberg's format version 3 have beside their schema.

They can be read by name. A file stores them if its rows were copied from other files.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from nimblepy.schema.field_ids import FIELD_ID
from nimblepy.schema.names import ColumnName

# The id of a row, which it keeps when it is updated or moved to another file.
ROW_ID = "_row_id"
# The sequence number of the commit that inserted or last updated a row.
LAST_UPDATED = "_last_updated_sequence_number"
# Field ids that Iceberg reserves for them.
ROW_ID_FIELD = pa.field(ROW_ID, pa.int64(), True, {FIELD_ID: b"2147483540"})
LAST_UPDATED_FIELD = pa.field(LAST_UPDATED, pa.int64(), True, {FIELD_ID: b"2147483539"})
LINEAGE = (ROW_ID_FIELD, LAST_UPDATED_FIELD)
NAMES = frozenset({ROW_ID, LAST_UPDATED})


def names_lineage(columns: Iterable[ColumnName] | None) -> bool:
    """Returns whether one of the columns is a column of row lineage. ``None`` means all columns of
    a schema.
    """
    return columns is not None and any(
        name in NAMES if isinstance(name, str) else name[0] in NAMES for name in columns
    )
