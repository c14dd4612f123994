"""A process that changes a table dies by ``kill -9`` at any moment: the table is old or new.

``python -m pytest tests/table/test_kills.py -m slow`` kills two hundred times.
"""

from __future__ import annotations

import datetime as dt
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import nimblepy as nb

pytestmark = [
    pytest.mark.crash,
    pytest.mark.no_sanitizer,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks"),
]

Row = tuple[int, str, int]


def rows(first: int, count: int, version: int) -> pa.Table:
    keys = range(first, first + count)
    return pa.table(
        {
            "k": pa.array(keys, pa.int64()),
            "g": [f"g{k % 3}" for k in keys],
            "v": pa.array([version] * count, pa.int64()),
        }
    )


@dataclass
class Step:
    """A change, and the state that it leads to from the one before it."""

    name: str
    run: Callable[[nb.Table], Any]
    rows: Counter[Row]
    columns: list[str]


@dataclass
class Trials:
    """One table that is changed again and again by processes that are killed."""

    folder: Path
    data_format: Any
    moments: random.Random
    seconds: dict[str, float] = field(default_factory=dict)
    seen: Counter[str] = field(default_factory=Counter)
    orphans: int = 0
    version: int = 0
    columns: list[str] = field(default_factory=lambda: ["k", "g", "v"])

    def __post_init__(self) -> None:
        self.lake = nb.connect(self.folder / "lake")
        first = rows(0, 90, 0)
        table = self.lake.create_table(
            "a.b", first, cluster_by="k", partition_by=["g"], data_format=self.data_format
        )
        self.location = Path(table.location.removeprefix("file://"))
        self.rows = self.read()[0]

    def read(self) -> tuple[Counter[Row], list[str]]:
        table = nb.connect(self.folder / "lake").table("a.b")
        found = table.to_table(["k", "g", "v"]).to_pylist()
        return Counter(tuple(row.values()) for row in found), table.schema.names

    def step(self) -> Step:
        name = ("append", "overwrite", "delete", "alter")[self.version % 4]
        self.version += 1
        version = self.version
        if name == "append":
            added = rows(1000 * version, 30, version)
            after = self.rows + Counter(tuple(row.values()) for row in added.to_pylist())
            return Step(name, lambda table: table.append(added), after, self.columns)
        if name == "overwrite":
            added = rows(1000 * version, 60, version)
            kept = {row: n for row, n in self.rows.items() if row[0] % 2 or row[0] > 50_000}
            after = Counter(kept) + Counter(tuple(row.values()) for row in added.to_pylist())
            filter = "k % 2 = 0 AND k <= 50000"
            return Step(
                name, lambda table: table.overwrite(added, filter=filter), after, self.columns
            )
        if name == "delete":
            digit = version % 5
            kept = {row: n for row, n in self.rows.items() if row[0] % 5 != digit}
            return Step(
                name, lambda table: table.delete(f"k % 5 = {digit}"), Counter(kept), self.columns
            )
        added_column = f"c{version}"
        dropped = self.columns[3:4] if len(self.columns) > 5 else []

        def alter(table: nb.Table) -> None:
            with table.alter() as a:
                for column in dropped:
                    a.drop_column(column)
                a.add_column(added_column, pa.int32(), default=version)

        left = [column for column in self.columns if column not in dropped]
        return Step(name, alter, self.rows, [*left, added_column])

    def child(self, step: Step) -> tuple[int, int]:
        """A process that says when it begins, and its pipe."""
        read_end, write_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                table = nb.connect(self.folder / "lake").table("a.b")
                os.write(write_end, b"x")
                step.run(table)
                code = 0
            finally:
                os._exit(code)
        os.close(write_end)
        assert os.read(read_end, 1) == b"x"
        return pid, read_end

    def trial(self, *, kill: bool = True) -> None:
        step = self.step()
        pid, pipe = self.child(step)
        start = time.perf_counter()
        if kill:
            time.sleep(self.moments.uniform(0, 1.1 * self.seconds[step.name]))
            os.kill(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
        os.close(pipe)
        if not kill:
            assert status == 0
            self.seconds[step.name] = time.perf_counter() - start
        before, found = (self.rows, self.columns), self.read()
        after = (step.rows, step.columns)
        assert found in (before, after), f"{step.name} left neither the old table nor the new"
        assert kill or found == after
        self.seen[f"{step.name} {'new' if found == after else 'old'}"] += kill
        self.rows, self.columns = found
        self.clean()

    def clean(self) -> None:
        """What is left after remove_orphans is what the table needs, no more and no less."""
        table = nb.connect(self.folder / "lake").table("a.b")
        self.orphans += len(table.remove_orphans(older_than=dt.timedelta(0)).files)
        there = {str(path) for path in self.location.rglob("*") if path.is_file()}
        census = table.census().to_pylist()
        needed = {row["path"].removeprefix("file://") for row in census if row["reachable"]}
        assert there == needed
        assert self.read() == (self.rows, self.columns)
        for snapshot in table.snapshots().column("snapshot_id").to_pylist()[-3:]:
            table.at(snapshot=snapshot).to_table()
        if self.version % 20 == 0:
            table.expire(keep=5)


def killed(folder: Path, data_format: str, times: int, seed: int) -> Trials:
    trials = Trials(folder, data_format, random.Random(seed))
    for _ in range(4):
        trials.trial(kill=False)  # how long each step takes
    for _ in range(times):
        trials.trial()
    return trials


@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
def test_kills_leave_the_old_table_or_the_new(tmp_path: Path, data_format: str) -> None:
    trials = killed(tmp_path, data_format, 10, 1)
    assert sum(trials.seen.values()) == 10


@pytest.mark.slow
def test_two_hundred_kills(tmp_path: Path) -> None:
    found = [killed(tmp_path / kind, kind, 100, 2) for kind in ("nimble", "parquet")]
    seen = sum((trials.seen for trials in found), Counter())
    print(f"\n{sum(seen.values())} kills: {dict(sorted(seen.items()))}; ", end="")
    print(f"{sum(trials.orphans for trials in found)} orphans removed")
    assert sum(seen.values()) == 200
    for name in ("append", "overwrite", "delete", "alter"):
        assert min(seen[f"{name} old"], seen[f"{name} new"]) > 0, "all kills came too early or late"
