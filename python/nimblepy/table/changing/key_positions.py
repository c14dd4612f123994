"""Where some keys are in a table, from one of its states to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from nimblepy.errors import ConflictError, IndexUnavailableError, InvalidArgumentError
from nimblepy.rows.keys import read_keys
from nimblepy.rows.request import Keys
from nimblepy.rows.rowset import Positions, RowNumbers, RowSet, ascending_once
from nimblepy.rows.search import search_keys
from nimblepy.schema.columns import column_paths
from nimblepy.schema.field_ids import field_id_at
from nimblepy.table.reading.members import MemberRows

# (number of its first key, some keys), the same ones at every call.
Chunks = Callable[[], Iterator[tuple[int, pa.Table]]]

# See :attr:`Member.identity`.
_Identity = tuple[str, int]


class KeyPositions:
    """The live rows that have some keys.

    Each file is asked once: of a file that was asked before, only rows that were deleted since are
    left out. So after another commit, the files that it added are asked and no others.

    Args:
        columns: field ids of the key's columns.
        keys: the keys, in chunks whose columns are in this order; none has a null.
    """

    def __init__(self, columns: Sequence[int], keys: Chunks) -> None:
        self.columns = tuple(columns)
        self.chunks = keys
        # By listing: delete files that were applied, and rows with the numbers of their keys.
        self._known: dict[_Identity, tuple[frozenset[str], RowSet]] = {}

    def find(self, rows: MemberRows) -> dict[int, RowSet]:
        """By number of the file, its live rows that have one of the keys, by number of the key.

        Cost: a lookup of all keys in the files that were not asked before; 16 bytes of memory for
        each row that is found.
        """
        known: dict[_Identity, tuple[frozenset[str], RowSet]] = {}
        new: list[int] = []
        for number, member in enumerate(rows.members):
            before, deletes = self._known.get(member.identity), member.delete_paths
            if before is None or not before[0] <= deletes:
                new.append(number)  # also where a rollback has brought rows back
                continue
            found = before[1]
            gone = rows.deleted(number) if before[0] != deletes and len(found.begin) else None
            known[member.identity] = deletes, found if gone is None else found.minus(gone)
        if new:
            part = rows if len(new) == len(rows.members) else rows.part(new)
            known.update(self._ask(part))
        self._known = known
        return {
            number: found
            for number, member in enumerate(rows.members)
            if len((found := known[member.identity][1]).begin)
        }

    def _ask(self, rows: MemberRows) -> Iterator[tuple[_Identity, tuple[frozenset[str], RowSet]]]:
        names = key_names(rows.schema, self.columns)
        parts: dict[int, list[RowSet]] = {}
        for first, chunk in self.chunks():
            request = rows.keys_request(chunk.rename_columns(names), names)
            try:
                found = rows.find(request).expand()
            except IndexUnavailableError:
                found = _searched(rows, request)
            if found.file is None:
                continue
            # Of numbers as short as these, sorting is one pass.
            short = found.file.astype(np.int16) if len(rows.members) < 1 << 15 else found.file
            order = np.argsort(short, kind="stable")
            begin, probe = found.begin[order], numbers(found)[order] + first
            counts = np.bincount(found.file)
            ends = np.cumsum(counts)
            for file in np.flatnonzero(counts).tolist():
                mine = slice(ends[file] - counts[file], ends[file])
                parts.setdefault(file, []).append(RowSet(begin[mine], None, probe[mine]))
        nothing = RowSet(np.empty(0, dtype=np.uint64), probe=np.empty(0, dtype=np.int64))
        for number, member in enumerate(rows.members):
            found = RowSet.joined(parts[number]) if number in parts else nothing
            yield member.identity, (member.delete_paths, found)


def key_names(schema: pa.Schema, columns: Sequence[int]) -> list[str]:
    """What the columns of a key are called now.

    Raises:
        ConflictError: there is one no more.
    """
    names = {number: name for name, number in _ids(schema).items()}
    gone = [number for number in columns if number not in names]
    if gone:
        raise ConflictError(f"a column of the key, field id {gone[0]}, was dropped", kind="schema")
    return [names[number] for number in columns]


def key_ids(schema: pa.Schema, names: Sequence[str]) -> list[int]:
    """Field ids of the columns of a key."""
    ids = _ids(schema)
    return [ids[name] for name in names]


def _ids(schema: pa.Schema) -> dict[str, int]:
    return {".".join(path): field_id_at(schema, path) for path in column_paths(schema)}


def _searched(rows: MemberRows, request: Keys) -> RowSet:
    """The rows that have one of some keys where no index is on them: every key is looked at."""
    parts = []
    for number in range(rows.num_files):
        child, gone = rows.child(number), rows.deleted(number)
        found = search_keys(request, partial(child.read, child.all_rows()))
        parts.append((found if gone is None else found.minus(gone)).in_file(number))
    return RowSet.joined(parts)


def numbers(found: RowSet) -> Positions:
    """The number of the key that each row has."""
    assert found.probe is not None
    return found.probe


def ascending(found: dict[int, RowSet]) -> dict[int, RowNumbers | None]:
    """Ascending rows of each file, each once."""
    return {number: ascending_once(rows.begin) for number, rows in found.items()}


def given_keys(rows: MemberRows, keys: Any, names: Sequence[str]) -> KeyPositions:
    """The live rows that have keys of the caller, who may give them in any form of a lookup."""
    given = read_keys(keys)
    if given.width < len(names):
        raise InvalidArgumentError(
            f"keys: expected whole keys ({', '.join(names)}), got {given.width} of "
            f"{len(names)} columns; a filter finds rows by some of the columns"
        )
    request = rows.keys_request(given, names)
    table = pa.Table.from_arrays(list(request.values), list(request.names))
    wanted = np.ones(len(request), dtype=np.bool_) if request.usable is None else request.usable
    for values in request.values:
        wanted = wanted & values.is_valid().to_numpy(zero_copy_only=False)
    found = table if wanted.all() else table.filter(pa.array(wanted))
    return KeyPositions(key_ids(rows.schema, names), lambda: iter([(0, found)]))
