"""Compares every answer of an open file with the oracle's. Used by the model tests of lookups
and ranges.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import key_cases
import oracle
import pyarrow as pa
from exact import assert_same_table
from key_cases import KeyType
from oracle import Key, Order

import nimblepy as nb

INCLUSIVE = ["[)", "[]", "()", "(]"]


def pick(table: pa.Table, rows: Sequence[int]) -> pa.Table:
    """The rows in that order, for any type (Table.take lacks some)."""
    if table.num_columns == 0:
        # take() and concat_tables() forget the number of rows
        nothing = pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
        return pa.Table.from_batches([nothing.replace_schema_metadata(table.schema.metadata)])
    if not rows:
        return table.slice(0, 0)
    return pa.concat_tables([table.slice(row, 1) for row in rows])


def check_lookups(
    file: Any,
    stored: pa.Table,
    columns: Sequence[str],
    keys: Sequence[KeyType],
    probes: Sequence[Key],
) -> None:
    """lookup, contains, count, row_ranges of all probes in one batch, against the stored table."""
    stored_keys = oracle.table_keys(stored, columns)
    on = list(columns[: len(probes[0])]) if probes else list(columns)
    batch = key_cases.probe_table(on, keys, probes)
    for null_equals in (False, True):
        how = {"null_equals": True} if null_equals else {}
        pairs = oracle.lookup(stored_keys, probes, null_equals=null_equals)
        want = pick(stored, [row for _, row in pairs])
        got = file.lookup(batch, on=on, probe_row="probe", **how)
        assert got.schema.field(0).type == pa.int64()
        assert got.column("probe").to_pylist() == [probe for probe, _ in pairs]
        assert got.column("row").to_pylist() == want.column("row").to_pylist()
        assert_same_table(got.drop_columns(["probe"]), want)
        counts = oracle.count(stored_keys, probes, null_equals=null_equals)
        assert file.count(batch, on=on, **how).to_pylist() == counts
        assert file.contains(batch, on=on, **how).to_pylist() == [n > 0 for n in counts]
        assert expand(file.row_ranges(batch, on=on, **how)) == pairs


def check_gets(
    file: Any,
    stored: pa.Table,
    columns: Sequence[str],
    keys: Sequence[KeyType],
    probes: Sequence[Key],
) -> None:
    """get of each probe, given as Arrow scalars, against the stored table."""
    stored_keys = oracle.table_keys(stored, columns)
    rows = stored.column("row").to_pylist()
    texts = stored.column("text").to_pylist()
    for probe in probes:
        scalars = tuple(
            key_cases.array_of(key.type, [value])[0]
            for key, value in zip(keys, probe, strict=False)
        )
        found = oracle.lookup(stored_keys, [probe])
        want = {"text": texts[found[0][1]], "row": rows[found[0][1]]} if found else None
        got = file.get(scalars if len(columns) > 1 else scalars[0], ["text", "row"])
        assert got == want, f"get({probe!r})"


def check_range(
    file: Any,
    stored: pa.Table,
    columns: Sequence[str],
    keys: Sequence[KeyType],
    orders: Sequence[Order],
    bounds: tuple[Key | None, Key | None],
    inclusive: str,
) -> None:
    """range forwards, reversed and limited."""
    want = oracle.range_rows(oracle.table_keys(stored, columns), *bounds, inclusive, orders)
    lower, upper = (as_bound(keys, bound) for bound in bounds)
    on = list(columns)
    name = f"range{bounds}, {inclusive}"
    got = file.range(lower, upper, on=on, inclusive=inclusive)
    assert got.column("row").to_pylist() == pick(stored, want).column("row").to_pylist(), name
    assert_same_table(got, pick(stored, want))
    low, high = (plain_bound(bound) for bound in (lower, upper))
    quick = file.range(low, high, on=on, inclusive=inclusive)
    assert quick.column("row").to_pylist() == got.column("row").to_pylist(), f"plain {name}"
    assert_same_table(quick, got)
    backwards = file.range(lower, upper, on=on, inclusive=inclusive, reverse=True, columns=["row"])
    assert (
        backwards.column("row").to_pylist() == pick(stored, want[::-1]).column("row").to_pylist()
    ), name
    for limit in (0, 1, 5):
        for reverse in (False, True):
            rows = (want[::-1] if reverse else want)[:limit]
            got = file.range(lower, upper, on=on, inclusive=inclusive, limit=limit, reverse=reverse)
            assert_same_table(got, pick(stored, rows))


def as_bound(keys: Sequence[KeyType], bound: Key | None) -> Any:
    """A tuple of Arrow scalars for the API, or None."""
    if bound is None:
        return None
    return tuple(
        key_cases.array_of(key.type, [value])[0] for key, value in zip(keys, bound, strict=False)
    )


def plain_bound(bound: Any) -> Any:
    """The bound in Python's own types, which core takes as they are; Arrow scalars, which it
    leaves to Python, where there is no such value.
    """
    if bound is None:
        return None
    # Nanoseconds would be pandas' values; the extreme durations cannot come back from Python.
    if any("ns" in str(scalar.type) or pa.types.is_duration(scalar.type) for scalar in bound):
        return bound
    try:
        values = tuple(scalar.as_py() for scalar in bound)
    except (OverflowError, ValueError):  # beyond the years of datetime
        return bound
    return values


def expand(ranges: pa.Table) -> list[tuple[int, int]]:
    """(probe, row) pairs of a row_ranges answer, in its order."""
    assert ranges.schema.names == ["probe_row", "begin", "end"]
    assert set(ranges.schema.types) == {pa.int64()}
    pairs = []
    for answer in ranges.to_pylist():
        assert answer["begin"] <= answer["end"]
        pairs += [(answer["probe_row"], row) for row in range(answer["begin"], answer["end"])]
    return pairs


def clustered(
    path: str, table: pa.Table, columns: Sequence[str], orders: Sequence[Order], **layout: Any
) -> tuple[Any, pa.Table]:
    """Writes the table clustered by the columns; returns the open file and the table as it must
    be stored.
    """
    options = nb.WriteOptions(**layout)
    nb.write(table, path, cluster_by=key_cases.sort_keys(columns, orders), options=options)
    return nb.open(path), key_cases.in_file_order(table, columns, orders)
