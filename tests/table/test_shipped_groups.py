"""Compactions whose groups are written from their description, against those of one process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nimblepy as nb
from nimblepy.errors import InvalidArgumentError
from nimblepy.io.progress import Progress
from nimblepy.join.joinable import SourceHandle
from nimblepy.table.distributed import write_target
from nimblepy.table.handle import TableState
from nimblepy.table.reading.members import MemberRows
from nimblepy.table.reading.shipped import (
    files_as_text,
    files_of_text,
    rows_as_text,
    rows_of_text,
)
from nimblepy.table.upkeep.compact import Compacting, Group
from nimblepy.table.upkeep.recluster import compact
from nimblepy.table.upkeep.shipped_groups import group_as_text, written_group
from nimblepy.table.writing.write import Target

SCHEMA = pa.schema({"k": pa.int64(), "g": pa.int32(), "t": pa.string()})

TABLES: dict[str, dict[str, Any]] = {
    "keyed": {"primary_key": "k"},
    "descending": {"cluster_by": [nb.SortKey("t", descending=True)], "partition_by": "g"},
    "parquet": {"primary_key": "k", "partition_by": "bucket(2, k)", "data_format": "parquet"},
    "no key": {},
    "cubes": {"layout": nb.OTree(["k", "g"], cube_rows=100)},
    "cubes and key": {"layout": nb.OTree(["k", "g"], cube_rows=100), "cluster_by": "t"},
}


def shipped(groups: Sequence[Group], rows: MemberRows, target: Target, progress: Progress) -> None:
    for group in groups:
        group.added = files_of_text(
            files_as_text(written_group(group_as_text(group, rows), target))
        )


def stock(lake: nb.Catalog, name: str, kind: str) -> nb.Table:
    table = lake.create_table(name, SCHEMA, **TABLES[kind])
    generator = np.random.default_rng(5)
    for number in range(5):
        keys = generator.permutation(200) + 200 * number
        table.append(pa.table([keys, keys % 3, [f"t{k * 7 % 1000}" for k in keys]], schema=SCHEMA))
    table.delete("k % 5 = 0 AND k < 500")
    with table.alter() as a:
        a.rename_column("g", "h")
        a.add_column("n", pa.int32(), default=7)
    return table


@pytest.mark.parametrize("kind", TABLES)
def test_groups_are_written_as_here(lake: nb.Catalog, kind: str) -> None:
    one, other = (stock(lake, f"a.t{i}", kind) for i in (1, 2))
    before = one.to_table().sort_by("k")
    done = one.compact(where_needed=False)
    wanted = Compacting(filter=None, target_bytes=256 << 20, where_needed=False, write=shipped)
    sent = compact(TableState(other), wanted)
    assert one.to_table().sort_by("k") == other.to_table().sort_by("k") == before
    assert (sent.files_added, sent.files_removed) == (done.files_added, done.files_removed)
    if one.cluster_by and "cubes" not in kind:  # which have weights that are drawn
        assert one.to_table() == other.to_table()
    mine, theirs = (
        sorted((m.file.rows, m.file.partition, m.file.sort_order_id) for m in t._current.members)
        for t in (one, other)
    )
    assert [m[1:] for m in mine] == [m[1:] for m in theirs]
    assert sum(m[0] for m in mine) == sum(m[0] for m in theirs) == before.num_rows
    assert set(other.census().column("reachable").to_pylist()) == {True}


def test_what_is_no_group(lake: nb.Catalog) -> None:
    table = stock(lake, "a.b", "keyed")
    for text in ("", "{}", "[]"):
        with pytest.raises(InvalidArgumentError, match="description of a table's files"):
            written_group(text, write_target(table))


def test_indexes_of_a_table_without_files_are_sent(lake: nb.Catalog) -> None:
    schema = pa.schema({"k": pa.int64(), "m": pa.string()})
    table = lake.create_table("a.b", schema, primary_key="k", indexes=[nb.HashIndex("m")])
    rows = rows_of_text(rows_as_text(table._current))
    assert rows.indexes == table.indexes
    assert SourceHandle(rows).lookup(["x"], on="m").num_rows == 0
