"""Processes that upsert overlapping keys: the table is what some order of their commits gives."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pyarrow as pa
import pytest
from processes import CHILDREN, pool_of

import nimblepy as nb

SCHEMA = pa.schema([("k", pa.int64()), ("writer", pa.int64()), ("turn", pa.int64())])


def _keys(writer: int, turn: int, count: int) -> list[int]:
    return random.Random(1000 * writer + turn).sample(range(count), count // 4)


def _upsert(directory: str, writer: int, turns: int, count: int) -> list[tuple[int, int, int, int]]:
    """(snapshot, writer, turn, rows inserted) of each commit."""
    table = nb.connect(directory).table("a.b")
    done = []
    for turn in range(turns):
        keys = _keys(writer, turn, count)
        rows = [keys, [writer] * len(keys), [turn] * len(keys)]
        commit = table.upsert(pa.table(rows, schema=SCHEMA))
        assert commit.snapshot is not None
        done.append((commit.snapshot, writer, turn, commit.rows_inserted))
    return done


def _compact(directory: str) -> None:
    """Compacts where there is something to compact, until it is stopped."""
    table = nb.connect(directory).table("a.b")
    while os.getppid() != 1:
        if table.refresh().health().delete_files > 4:
            table.compact()
        time.sleep(0.2)


def _contents(table: nb.Table) -> dict[int, tuple[int, int]]:
    rows = table.to_table().to_pylist()
    found = {row["k"]: (row["writer"], row["turn"]) for row in rows}
    assert len(found) == len(rows) == table.num_rows, "a key twice"
    return found


@pytest.mark.parametrize(
    ("writers", "turns"),
    [
        (2, 4),
        pytest.param(2, 8, marks=pytest.mark.slow),
        pytest.param(8, 25, marks=pytest.mark.slow),
    ],
)
def test_processes_upsert_the_same_keys(tmp_path: Path, writers: int, turns: int) -> None:
    directory, count = str(tmp_path / "lake"), 80
    table = nb.connect(directory).create_table("a.b", SCHEMA, primary_key="k")
    compacting = CHILDREN.Process(target=_compact, args=(directory,))
    if turns > 4:  # a process more is too slow for every run
        compacting.start()
    try:
        with pool_of(writers) as pool:
            arguments = [(directory, writer, turns, count) for writer in range(writers)]
            found = [item for part in pool.starmap(_upsert, arguments) for item in part]
        assert compacting.is_alive() or turns == 4
    finally:
        if compacting.pid is not None:
            compacting.kill()
            compacting.join()
    by_snapshot = {snapshot: rest for snapshot, *rest in found}
    table.refresh()
    everything = table.snapshots().to_pylist()
    compactions = {s["snapshot_id"] for s in everything if s["operation"] == "replace"}
    print(f"{len(by_snapshot)} upserts and {len(compactions)} compactions")
    history = [s["snapshot_id"] for s in everything if s["snapshot_id"] not in compactions]
    assert sorted(history) == sorted(by_snapshot), "one commit for each upsert"
    wanted: dict[int, tuple[int, int]] = {}
    for snapshot in history:
        writer, turn, inserted = by_snapshot[snapshot]
        keys = _keys(writer, turn, count)
        assert inserted == len(set(keys) - wanted.keys())
        wanted |= dict.fromkeys(keys, (writer, turn))
        assert _contents(table.at(snapshot=snapshot)) == wanted
    assert _contents(table) == wanted
