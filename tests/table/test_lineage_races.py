"""Row ids and sequence numbers after transactions, and after commits that lose a race."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from shared_merges import shared

import nimblepy as nb
from nimblepy.table.testing import commit_hooks

FORMATS = ("nimble", "parquet")
LINEAGE = ["k", "v", "_row_id", "_last_updated_sequence_number"]
# For each key: value, row id, and sequence number of the last update.
Lineage = dict[int, tuple[int, int, int]]


def data(keys: Any, value: int) -> pa.Table:
    keys = list(keys)
    return pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array([value] * len(keys))})


def lineage_of(table: nb.Table) -> Lineage:
    """The lineage of each row. No two rows have the same key or id."""
    rows = table.to_table(LINEAGE).to_pylist()
    by_key: Lineage = {row["k"]: tuple(list(row.values())[1:]) for row in rows}  # type: ignore[misc]
    assert len(by_key) == len(rows)
    assert len({number for _, number, _ in by_key.values()}) == len(rows)
    return by_key


def upgrade(table: nb.Table) -> None:
    with table.alter() as a:
        a.upgrade(3)


def delete_files(table: nb.Table) -> set[str]:
    """Paths of the position delete files that are not deletion vectors."""
    files = [file for member in table._current.members for file in member.deletes]
    return {file.path for file in files if file.vector is None}


def merge(table: nb.Table) -> Any:
    return table.merge(data([1, 2, 50], 7), on="k").when_matched(update=True)


def shared_merge(table: nb.Table) -> Any:
    merge, _ = shared(table, data([1, 2, 12, 50], 7), cuts=[10])
    merge.when_matched(update=True).when_not_matched(insert=True).execute()


CONVERT = "convert_deletes"
CHANGES: dict[str, Callable[[nb.Table], object]] = {
    "upsert": lambda table: table.upsert(data([1, 2, 50], 7)),
    "update": lambda table: table.upsert(data([1, 2, 50], 7), update=["v"]),
    "merge": lambda table: merge(table).when_not_matched(insert=True).execute(),
    "shared merge": shared_merge,
    "delete": lambda table: table.delete("k IN (1, 12)"),
    "compact": lambda table: table.compact(),
    CONVERT: lambda table: table.convert_deletes(),
    "add_index": lambda table: table.add_index(nb.HashIndex(["v"])),
}


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize(
    ("what", "is_upgraded"),
    # In version 2, there are no deletes to convert.
    [*((what, True) for what in CHANGES), *((what, False) for what in CHANGES if what != CONVERT)],
)
def test_a_commit_that_loses_to_the_first_row_ids_keeps_them(
    lake: nb.Catalog, what: str, is_upgraded: bool, data_format: Any
) -> None:
    table = lake.create_table("n.t", data(range(10), 0), primary_key="k", data_format=data_format)
    table.append(data(range(10, 15), 0))
    table.delete("k = 3")
    old_deletes = delete_files(table)
    assert len(old_deletes) == 1
    if is_upgraded:
        upgrade(table)
    other = lake.table("n.t")
    seen: Lineage = {}

    def overtake() -> None:
        if not seen:
            if not is_upgraded:
                upgrade(other)
            other.delete("k = 11")
            seen.update(lineage_of(other))

    with commit_hooks(before_swap=overtake):
        CHANGES[what](table)
    after = lineage_of(table.refresh())
    assert seen
    for key in seen.keys() & after.keys():
        assert after[key][1] == seen[key][1], key
        if after[key][0] == seen[key][0]:
            assert after[key][2] == seen[key][2], key
    assert 3 not in after
    assert 11 not in after
    # Format version 3 still reads the position deletes of version 2, but must not add to them.
    assert delete_files(table) <= old_deletes
