"""What a table does with many files: those that it keeps open, and what it asks of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import nimblepy as nb
from nimblepy.table import members


def test_a_closed_table_reads_no_more(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", pa.table({"k": range(10)}), cluster_by="k")
    table.append(pa.table({"k": range(10, 20)}))
    assert table.lookup([3, 13]).num_rows == 2
    with table:
        assert table.get(3) == {"k": 3}
    for ask in (lambda: table.lookup([3, 13]), lambda: table.get(13), table.to_table):
        with pytest.raises(nb.InvalidArgumentError, match="closed"):
            ask()


def test_more_files_than_are_kept_open(lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "MOST_OPEN_FILES", 3)
    table = lake.create_table("a.b", pa.schema({"k": pa.int64()}), cluster_by="k")
    for i in range(8):
        table.append(pa.table({"k": range(i * 10, i * 10 + 10)}))
    table = lake.table("a.b")
    for _ in range(2):
        assert table.lookup(range(80)).num_rows == 80
        assert [table.get(k) for k in range(0, 80, 7)] == [{"k": k} for k in range(0, 80, 7)]
        assert table.to_table().num_rows == 80
    assert len(table.current.reading.open_files) == 3
    few = table.current.part([0, 1])
    assert few.child(0) is few.child(0)
    assert len(table.current._children) == 0


def test_manifests_are_not_counted_for_each_file(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", pa.schema({"k": pa.int64()}), cluster_by="k")
    for i in range(8):
        table.append(pa.table({"k": range(i * 10, i * 10 + 10)}))
    table.lookup(range(80))
    asked = []

    class Counted(list[Any]):
        def __iter__(self) -> Iterator[Any]:
            asked.append(1)
            return super().__iter__()

    table.current.plan._manifests = Counted(table.current.plan.manifests)
    assert table.lookup(range(80)).num_rows == 80
    assert not asked
