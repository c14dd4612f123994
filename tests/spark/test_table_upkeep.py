"""Upkeep of tables in tasks: the same as on one machine, beside other commits too."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

import nimblepy as nb

pytest.importorskip("pyspark")
import nimblepy.spark as ns
from nimblepy.spark.writing import upkeep

SCHEMA = pa.schema({"k": pa.int64(), "g": pa.int32()})


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> nb.Catalog:
    return nb.connect(tmp_path_factory.mktemp("upkeep") / "lake")


def stock(lake: nb.Catalog, name: str) -> nb.Table:
    table = lake.create_table(f"a.{name}", SCHEMA, primary_key="k", partition_by="g")
    for first in range(0, 90, 30):
        keys = list(range(first, first + 30))
        table.append(pa.table([keys, [k % 3 for k in keys]], schema=SCHEMA))
    table.delete(keys=[4, 5, 40])
    return table


def left(table: nb.Table) -> int:
    return len(table.remove_orphans(older_than=dt.timedelta(0), dry_run=True).files)


def test_compactions_are_those_of_one_machine(
    spark: Any, lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, here, tasks = (stock(lake, name) for name in ("one", "here", "tasks"))
    wanted = one.compact()
    assert ns.compact(spark, here).files_added == wanted.files_added == 3
    monkeypatch.setattr(upkeep, "ALONE_BYTES", 0)
    done = ns.compact(spark, tasks, filter="g >= 0", target_bytes=1 << 20)
    assert (done.files_added, done.files_removed) == (wanted.files_added, wanted.files_removed)
    assert one.to_table() == tasks.to_table() == here.to_table()
    assert tasks.get(41) == {"k": 41, "g": 2}
    assert left(tasks) == 0
    assert ns.compact(spark, tasks).snapshot == tasks.snapshot  # nothing is to be done
    with pytest.raises(nb.InvalidArgumentError, match="expected a Table"):
        ns.compact(spark, "dir")  # type: ignore[arg-type]
    with pytest.raises(nb.InvalidArgumentError, match="target_bytes"):
        ns.compact(spark, tasks, target_bytes=0)


def test_analyses_are_those_of_one_machine(
    spark: Any, lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, tasks = stock(lake, "plain"), stock(lake, "shared")
    monkeypatch.setattr(upkeep, "ALONE_BYTES", 0)
    monkeypatch.setattr(upkeep, "PART_BYTES", tasks.size_bytes // 3)
    jobs = []
    run = upkeep.run_numbered
    monkeypatch.setattr(upkeep, "run_numbered", lambda *a: jobs.append(a[3]) or run(*a))
    for _ in range(2):
        wanted, done = one.analyze(), ns.analyze(spark, tasks)
        assert (done.distinct, done.rows_read) == (wanted.distinct, wanted.rows_read)
        # Where rows were only added, the new files alone are read.
        for table in (one, tasks):
            first = table.num_rows * 100
            table.append(pa.table([range(first, first + 10), [7] * 10], schema=SCHEMA))
    assert jobs[0] == 4
    assert len(jobs) == 2
    done = ns.analyze(spark, tasks, ["g"])
    assert done.distinct == {"g": 4}
    with pytest.raises(nb.InvalidArgumentError, match="unknown column 'nope'"):
        ns.analyze(spark, tasks, ["nope"])


def test_a_compaction_gives_way(
    spark: Any, lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = stock(lake, "beside")
    beside = lake.table("a.beside")
    monkeypatch.setattr(upkeep, "ALONE_BYTES", 0)
    run, times = upkeep.run_numbered, []

    def between(*arguments: Any) -> Any:
        found = run(*arguments)
        times.append(arguments[3])
        if len(times) == 1:
            beside.delete(keys=[7])  # follows into the new file
            beside.delete("g = 2")  # takes files that are being compacted
        return found

    monkeypatch.setattr(upkeep, "run_numbered", between)
    done = ns.compact(spark, table)
    assert times == [3]
    assert (done.files_added, done.files_removed) == (3, 6)  # one of them names k = 7
    assert sorted(table.to_table()["k"].to_pylist()) == [
        k for k in range(90) if k % 3 != 2 and k not in (4, 5, 7, 40)
    ]
    assert left(table) == 0
