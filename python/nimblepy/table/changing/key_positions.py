"""Finds the positions of keys in a table, and updates them for later states of the table."""

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

# Yields (number of the chunk's first key, keys of the chunk). Each call yields the same chunks.
Chunks = Callable[[], Iterator[tuple[int, pa.Table]]]

# Sorts after all row ids.
_NO_ID = (1 << 63) - 1
# The value of :attr:`Member.identity`.
_Identity = tuple[str, int]


class KeyPositions:
    """Finds the live rows that have one of the given keys.

    Each file is searched once. Later calls drop the rows that were deleted from it meanwhile, and
    search only files that other commits added.

    Args:
        columns: field ids of the key's columns.
        keys: the keys in chunks, without nulls, with their columns in the order of ``columns``.
    """

    def __init__(self, columns: Sequence[int], keys: Chunks) -> None:
        self.columns = tuple(columns)
        self.chunks = keys
        # For each listed file: the delete files that applied to it, and its matching rows with the
        # numbers of their keys.
        self._known: dict[_Identity, tuple[frozenset[str], RowSet]] = {}

    def find(self, rows: MemberRows) -> dict[int, RowSet]:
        """For each file, its live rows that have one of the keys, with the number of the key.

        Cost: a lookup of all keys in files that were not searched before, and 16 bytes of memory
        per matching row.
        """
        searched: dict[_Identity, tuple[frozenset[str], RowSet]] = {}
        new: list[int] = []
        for number, member in enumerate(rows.members):
            before, deletes = self._known.get(member.identity), member.delete_ids
            if before is None or not before[0] <= deletes:
                new.append(number)  # new file, or a rollback restored deleted rows
                continue
            matches = before[1]
            deleted = rows.deleted(number) if before[0] != deletes and len(matches.begin) else None
            searched[member.identity] = (
                deletes,
                matches if deleted is None else matches.minus(deleted),
            )
        if new:
            part = rows if len(new) == len(rows.members) else rows.part(new)
            searched.update(self._ask(part))
        self._known = searched
        return {
            number: matches
            for number, member in enumerate(rows.members)
            if len((matches := searched[member.identity][1]).begin)
        }

    def _ask(self, rows: MemberRows) -> Iterator[tuple[_Identity, tuple[frozenset[str], RowSet]]]:
        names = key_names(rows.schema, self.columns)
        parts: dict[int, list[RowSet]] = {}
        for first, chunk in self.chunks():
            request = rows.keys_request(chunk.rename_columns(names), names)
            try:
                matches = rows.find(request).expand()
            except IndexUnavailableError:
                matches = _searched(rows, request)
            if matches.file is None:
                continue
            # numpy sorts numbers of at most 16 bits in linear time.
            short = matches.file.astype(np.int16) if len(rows.members) < 1 << 15 else matches.file
            order = np.argsort(short, kind="stable")
            begin, probe = matches.begin[order], numbers(matches)[order] + first
            counts = np.bincount(matches.file)
            ends = np.cumsum(counts)
            for file in np.flatnonzero(counts).tolist():
                key_range = slice(ends[file] - counts[file], ends[file])
                parts.setdefault(file, []).append(RowSet(begin[key_range], None, probe[key_range]))
        nothing = RowSet(np.empty(0, dtype=np.uint64), probe=np.empty(0, dtype=np.int64))
        for number, member in enumerate(rows.members):
            matches = RowSet.joined(parts[number]) if number in parts else nothing
            yield member.identity, (member.delete_ids, matches)


def key_names(schema: pa.Schema, columns: Sequence[int]) -> list[str]:
    """Returns the current names of a key's columns.

    Raises:
        ConflictError: a column was dropped.
    """
    names = {number: name for name, number in _ids(schema).items()}
    dropped = [number for number in columns if number not in names]
    if dropped:
        raise ConflictError(
            f"the key column with field id {dropped[0]} was dropped by another commit",
            kind="schema",
        )
    return [names[number] for number in columns]


def key_ids(schema: pa.Schema, names: Sequence[str]) -> list[int]:
    """Returns the field ids of the columns of a key."""
    ids = _ids(schema)
    return [ids[name] for name in names]


def _ids(schema: pa.Schema) -> dict[str, int]:
    return {".".join(path): field_id_at(schema, path) for path in column_paths(schema)}


def _searched(rows: MemberRows, request: Keys) -> RowSet:
    """Returns the rows that have one of the keys. Reads every key, because no index helps."""
    parts = []
    for number in range(rows.num_files):
        child, deleted = rows.child(number), rows.deleted(number)
        matches = search_keys(request, partial(child.read, child.all_rows()))
        parts.append((matches if deleted is None else matches.minus(deleted)).in_file(number))
    return RowSet.joined(parts)


def numbers(matches: RowSet) -> Positions:
    """Returns the number of each row's key."""
    assert matches.probe is not None
    return matches.probe


def ascending(matches: dict[int, RowSet]) -> dict[int, RowNumbers | None]:
    """Returns distinct ascending rows of each file."""
    return {number: ascending_once(rows.begin) for number, rows in matches.items()}


def ids_of_replaced(rows: MemberRows, matches: dict[int, RowSet], count: int) -> pa.Array | None:
    """Returns the row id that each new row takes over from the row with its key.

    Args:
        matches: the rows with the keys of new rows, each with the number of its new row.
        count: the number of new rows.

    Returns:
        One id for each new row, null if no row has its key. ``None`` if this holds for all new
        rows, or if rows have no ids.
    """
    if not matches or not rows.reading.has_row_ids:
        return None
    places = np.concatenate([numbers(some) for some in matches.values()])
    row_ids = pa.concat_arrays(list(rows.row_ids(matches).values()))
    # Other engines may have written a key twice. The row keeps the least id.
    order = np.lexsort((row_ids.fill_null(_NO_ID).to_numpy(), places))
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = np.diff(places[order]) != 0
    at = np.full(count, -1, dtype=np.int64)
    at[places[order][first]] = order[first]
    return row_ids.take(pa.array(at, mask=at < 0))


def given_keys(rows: MemberRows, keys: Any, names: Sequence[str]) -> KeyPositions:
    """Returns a search for the live rows with the given keys, which may have any form that lookups
    accept.
    """
    given = read_keys(keys)
    if not any(len(column) for column in given.columns):
        return KeyPositions(key_ids(rows.schema, names), lambda: iter(()))
    if given.width < len(names):
        raise InvalidArgumentError(
            f"keys: expected all key columns ({', '.join(names)}), got {given.width} of "
            f"{len(names)} columns; use a filter to find rows by a part of the key"
        )
    request = rows.keys_request(given, names)
    table = pa.Table.from_arrays(list(request.values), list(request.names))
    usable = np.ones(len(request), dtype=np.bool_) if request.usable is None else request.usable
    for values in request.values:
        usable = usable & values.is_valid().to_numpy(zero_copy_only=False)
    valid_keys = table if usable.all() else table.filter(pa.array(usable))
    return KeyPositions(key_ids(rows.schema, names), lambda: iter([(0, valid_keys)]))
