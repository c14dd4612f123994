"""Primary keys of new rows, and the check that no row of the table has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from nimblepy.errors import DuplicateKeyError
from nimblepy.files.bounds import EncodedKeys
from nimblepy.join.joinable import SourceHandle
from nimblepy.rows.rowset import RowNumbers, RowSet
from nimblepy.rows.source import RowSource
from nimblepy.schema.types import SortKey
from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import DataFile
from nimblepy.table.changing.keyed_rows import show_key
from nimblepy.table.reading.fileset import FileSet
from nimblepy.table.reading.members import Member, MemberRows, Reading

_NO_ROWS: RowNumbers = np.empty(0, dtype=np.uint64)


class NewKeys:
    """The primary keys of rows to insert.

    Raises:
        DuplicateKeyError: a key occurs twice.
    """

    def __init__(self, names: Sequence[str], table: pa.Table) -> None:
        self.names = tuple(names)
        self.table = table.select(list(names)).combine_chunks()
        batches = self.table.to_batches()
        if not batches:
            return
        encoded = EncodedKeys(batches[0], [SortKey(name) for name in names])
        octets = pa.array(encoded.to_list(), pa.binary()).dictionary_encode()
        if len(octets.dictionary) == len(octets):
            return
        codes = octets.indices.to_numpy()
        order = np.argsort(codes, kind="stable")
        at = int(np.flatnonzero(np.diff(codes[order]) == 0)[0])
        first, second = int(order[at]), int(order[at + 1])
        shown = show_key(self.table.slice(first))
        raise DuplicateKeyError(
            f"the key {shown} is in row {first} and in row {second} of the data; keys must be "
            "unique"
        )

    @classmethod
    def of_files(cls, files: Sequence[DataFile], reading: Reading) -> NewKeys | None:
        """Returns the keys in new files; ``None`` if there are no files or the table has no primary
        key.
        """
        primary = reading.primary_key
        if not primary or not files:
            return None
        sources = [reading.child(file, keep=False) for file in files]
        tables = [SourceHandle(source).to_table(primary) for source in sources]
        return cls(primary, pa.concat_tables(tables))

    def refuse_known(self, rows: RowSource) -> None:
        """Raises DuplicateKeyError if a row of ``rows`` has one of the keys."""
        if not self.table.num_rows:
            return
        counts = rows.count_matches(rows.keys_request(self.table, self.names))
        taken = np.flatnonzero(counts)
        if len(taken):
            raise DuplicateKeyError(
                f"the key {show_key(self.table.slice(int(taken[0])))} is in the table already"
                + (f", and {len(taken) - 1} more" if len(taken) > 1 else "")
                + "; upsert() replaces rows"
            )

    def refuse_kept(self, rows: MemberRows, deleted: Mapping[int, RowNumbers | None]) -> None:
        """Raises DuplicateKeyError if a row that is not deleted has one of the keys."""
        if not self.table.num_rows:
            return
        matches = rows.find(rows.keys_request(self.table, self.names)).expand()
        for number in () if matches.file is None else np.unique(matches.file).tolist():
            deleted_rows = deleted.get(number, _NO_ROWS)
            if deleted_rows is None:
                continue
            positions = matches.begin[matches.file == number]
            left = positions[~np.isin(positions, deleted_rows)]
            if len(left):
                shown = show_key(rows.child(number).read(RowSet(left[:1]), self.names))
                raise DuplicateKeyError(
                    f"the key {shown} of a new row is also in a row that is not deleted"
                )


class KeysAreNew:
    """Checks that no row of the table has one of the new keys. Searches each file once."""

    def __init__(self, keys: NewKeys) -> None:
        self._keys = keys
        # Searched files with their delete files, because a rollback may restore deleted rows.
        self._searched: set[tuple[str, ...]] = set()

    def __call__(self, metadata: ice.Metadata, rows: FileSet) -> None:
        states = [_state(member) for member in rows.members]
        new = [i for i, state in enumerate(states) if state not in self._searched]
        self._keys.refuse_known(rows.part(new))
        self._searched.update(states)


def _state(member: Member) -> tuple[str, ...]:
    """Returns the paths of a file and of its delete files, which determine its live rows."""
    return (member.file.path, *(file.path for file in member.deletes))
