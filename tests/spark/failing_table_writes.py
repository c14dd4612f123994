"""Run by test_failing_writes.py in a process of its own: changes of tables whose tasks fail.

python failing_table_writes.py DIRECTORY [--all]

Each change has a task that has written its files when it raises an error, dawdles until another
attempt takes over, or dies with its whole executor. The cluster is that of failing_writes.py.
"""

from __future__ import annotations

import datetime as dt
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from failing_writes import SETTINGS, Cluster, dawdles, raises

import nimblepy as nb
import nimblepy.spark as ns
from conftest import builder
from nimblepy.spark.base import bootstrap
from nimblepy.spark.base.shipping import cloudpickle
from nimblepy.spark.base.tasks import named_batches
from nimblepy.spark.writing import merge as merging
from nimblepy.spark.writing import upkeep

ROWS = 4000
OLD = dict.fromkeys(range(0, ROWS, 2), 0)
Contents = dict[int, int]


def kills(_: int) -> None:
    """Ends the executor that this task runs in, and this process."""
    daemon = os.getppid()
    with open(f"/proc/{daemon}/stat") as stat:
        executor = int(stat.read().rpartition(")")[2].split()[1])
    os.kill(executor, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


class Trouble:
    """While it lasts, partition 0 of tasks of a kind has trouble once its files are written.

    Args:
        always: not just in the attempt that comes first, whatever its number.
    """

    def __init__(
        self, folder: Path, kind: str, trouble: Callable[[int], None], *, always: bool = False
    ) -> None:
        folder.mkdir()
        self._folder, self._kind = str(folder), kind
        self._trouble, self._always = trouble, always
        self._plain = bootstrap.over_items

    def __enter__(self) -> Trouble:
        plain, folder, wanted = self._plain, self._folder, self._kind
        trouble, always = self._trouble, self._always

        def over_items(payload: bytes) -> Callable[[Any], Any]:
            run = plain(payload)
            make, arguments = cloudpickle.loads(payload)
            # What goes through shipping.map_in_arrow names the function it is about.
            function = arguments[1] if make is named_batches else make
            if function.__name__ != wanted:
                return run

            def around(items: Any) -> Iterator[Any]:
                from pyspark import TaskContext

                context = TaskContext.get()
                assert context is not None
                part = context.partitionId()
                open(f"{folder}/{part}-{context.taskAttemptId()}", "w").close()
                for i, result in enumerate(run(items)):
                    if part == 0 and i == 0:
                        try:
                            open(f"{folder}/trouble", "x").close()
                            trouble(0)
                        except FileExistsError:
                            if always:
                                trouble(0)
                    yield result

            return around

        bootstrap.over_items = over_items
        return self

    def __exit__(self, *_: object) -> None:
        bootstrap.over_items = self._plain
        assert os.path.exists(f"{self._folder}/trouble")
        assert len(self.tried) > 1, self.tried

    @property
    def tried(self) -> list[str]:
        """Attempts at partition 0."""
        return sorted(name for name in os.listdir(self._folder) if name.startswith("0-"))


class Watch:
    """A reader beside the change: sees the old rows or the new, never anything else."""

    def __init__(self, table: nb.Table, new: Contents) -> None:
        self._table, self._new, self._old = table, new, contents(table)
        self._done = threading.Event()
        self.seen: set[str] = set()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        assert self.seen <= {"old", "new"}, self.seen

    def _look(self) -> None:
        while not self._done.wait(0.1):
            found = contents(self._table.refresh())
            which = "old" if found == self._old else "new" if found == self._new else str(found)
            self.seen.add(which)


def contents(table: nb.Table) -> Contents:
    rows = table.to_table(["k", "v"])
    found = dict(zip(rows["k"].to_pylist(), rows["v"].to_pylist(), strict=True))
    assert len(found) == rows.num_rows
    return found


def fresh(lake: nb.Catalog, name: str) -> nb.Table:
    """Rows in two files of each of four partitions."""
    table = lake.create_table(
        f"a.{name}",
        pa.schema({"k": pa.int64(), "p": pa.int32(), "v": pa.int64()}),
        primary_key="k",
        partition_by="p",
    )
    for keys in (range(0, ROWS // 2, 2), range(ROWS // 2, ROWS, 2)):
        columns = [list(keys), [k // 2 % 4 for k in keys], [0] * len(keys)]
        table.append(pa.table(columns, schema=table.schema))
    return table


def frame(spark: Any, step: int, v: int) -> Any:
    return spark.range(1, ROWS, step, 4).selectExpr(
        "id AS k", "CAST(id % 4 AS INT) AS p", f"CAST({v} AS LONG) AS v"
    )


def append(spark: Any, table: nb.Table) -> Any:
    return ns.write(frame(spark, 2, 1), table, mode="append", files=4)


def merge(spark: Any, table: nb.Table) -> Any:
    merged = ns.merge(frame(spark, 3, 1), table, files=4)
    return merged.when_matched(update=["v"]).when_not_matched().execute()


def upsert(spark: Any, table: nb.Table) -> Any:
    return ns.write(frame(spark, 3, 1), table, mode="upsert", files=4)


def compact(spark: Any, table: nb.Table) -> Any:
    return ns.compact(spark, table)


NEW: dict[Any, Contents] = {
    append: OLD | dict.fromkeys(range(1, ROWS, 2), 1),
    merge: OLD | dict.fromkeys(range(1, ROWS, 3), 1),
    upsert: OLD | dict.fromkeys(range(1, ROWS, 3), 1),
    compact: OLD,
}


def clean(table: nb.Table) -> int:
    """Removes what attempts left; everything that is left is reachable, and nothing else gone."""
    removed = table.remove_orphans(older_than=dt.timedelta(0)).files
    census = table.census().to_pylist()
    assert all(row["reachable"] and row["bytes"] is not None for row in census), census
    return len(removed)


def check(spark: Any, lake: nb.Catalog, folder: Path, change: Any, kind: str, trouble: Any) -> None:
    """One change that goes wrong and is saved by another attempt."""
    name = f"{change.__name__}_{kind}_{trouble.__name__}"
    table, begin = fresh(lake, name), time.monotonic()
    before = table.snapshots().num_rows
    reader = lake.table(table.name)
    with Watch(reader, NEW[change]) as watch:
        with Trouble(folder / name, kind, trouble) as troubled:
            change(spark, table)
        assert contents(lake.table(table.name)) == NEW[change]
    assert "old" in watch.seen
    assert table.refresh().snapshots().num_rows == before + 1
    assert contents(table) == NEW[change]
    left = clean(table)
    assert contents(lake.table(table.name)) == NEW[change]
    took = time.monotonic() - begin
    print(f"{name}: {len(troubled.tried)} attempts, {left} orphans, {took:.0f} s", flush=True)


def check_job_that_dies(spark: Any, lake: nb.Catalog, folder: Path, change: Any, kind: str) -> None:
    """Every attempt fails: so does the change, and the old rows stay."""
    from pyspark.errors import PySparkException

    name = f"{change.__name__}_dead"
    table = fresh(lake, name)
    before = table.snapshot
    with (
        Watch(lake.table(table.name), NEW[change]) as watch,
        Trouble(folder / name, kind, raises, always=True),
        pytest.raises(PySparkException, match="attempt fails"),
    ):
        change(spark, table)
    assert watch.seen == {"old"}
    assert table.refresh().snapshot == before
    left = clean(table)
    assert contents(lake.table(table.name)) == OLD
    print(f"{name}: {left} orphans", flush=True)


def main(folder: Path, everything: bool) -> None:
    folder.mkdir(exist_ok=True)
    merging.ALONE_BYTES = upkeep.ALONE_BYTES = 0
    lake = nb.connect(folder / "lake")
    cluster = Cluster(folder)
    try:
        made = builder(cluster.url)
        for name, value in (SETTINGS | {"spark.task.maxFailures": "3"}).items():
            made = made.config(name, value)
        spark = made.getOrCreate()
        saved: list[tuple[Any, str, Any]] = [
            (append, "written_files", dawdles),
            (upsert, "saved_parts", kills),
            (merge, "merged_parts", kills),
            (compact, "written_groups", dawdles),
        ]
        dead: list[tuple[Any, str]] = [(merge, "merged_parts")]
        if everything:
            saved += [
                (append, "written_files", kills),
                (merge, "merged_parts", dawdles),
                (compact, "written_groups", kills),
            ]
            dead += [(append, "written_files"), (compact, "written_groups")]
        for change, kind, trouble in saved:
            check(spark, lake, folder, change, kind, trouble)
        for change, kind in dead:
            check_job_that_dies(spark, lake, folder, change, kind)
        spark.stop()
    finally:
        cluster.stop()
    print("all is well")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:] == ["--all"])
