"""What a table does with many files: those that it keeps open, and what it asks of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import nimblepy as nb
from nimblepy.files import ahead, source
from nimblepy.table.reading import members


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


@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
def test_threads_change_no_answer(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch, data_format: Any
) -> None:
    monkeypatch.setattr(source, "_WORTH_VALUES", 1)
    monkeypatch.setattr(source, "_SMALL_ROWS", 60)
    monkeypatch.setattr(ahead, "_TASK_VALUES", 200)
    table = lake.create_table(
        "a.b", pa.schema({"k": pa.int64(), "s": pa.string()}), data_format=data_format
    )
    for i in range(12):
        count = 100 if i % 5 == 2 else 40
        keys = range(i * 1000, i * 1000 + count)
        table.append(pa.table({"k": keys, "s": [f"s{k % 7}" for k in keys]}))
    table.delete("k % 11 = 3")
    for filter in (None, "k % 3 = 1", "s = 's2'", "k < 0"):
        expected = table.scan(filter=filter, threads=1).to_table()
        for threads in (None, 2, 3):
            assert table.scan(filter=filter, threads=threads).to_table().equals(expected)
            assert table.scan(filter=filter, threads=threads).count() == expected.num_rows
    reader = table.scan(threads=2).to_reader()
    reader.read_next_batch()
    reader.close()
