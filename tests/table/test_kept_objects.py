"""What a process keeps of a table does not grow with the number of commits."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import nimblepy as nb
from nimblepy.files.open_files import OpenFiles
from nimblepy.table.base.made_of import MadeOf
from nimblepy.table.iceberg import kept_manifests, metadata
from nimblepy.table.reading import deletes


class Made:
    pass


def test_a_value_is_removed_with_its_object() -> None:
    calls = []
    length = MadeOf(lambda item: calls.append(item.__class__) or len(calls))
    item = Made()
    assert length(item) == length(item) == 1
    del item
    gc.collect()
    assert len(length) == 0
    assert length(Made()) == 2


def test_holders_of_open_files_are_removed_with_their_objects() -> None:
    class Holder:
        released = 0

        def release(self) -> None:
            self.released += 1

    files: OpenFiles = OpenFiles()
    kept = Holder()
    files.add_holder(kept.release)
    for _ in range(100):
        files.add_holder(Holder().release)
    gc.collect()
    assert len(files._holders) == 1
    files.relieve()
    assert kept.released == 1


def commits(lake: Path, count: int) -> tuple[nb.Table, nb.Table]:
    properties = {"nimblepy.expire-on-commit": "false"}
    rows = pa.table({"id": range(100), "v": [0] * 100})
    writer = nb.connect(lake).create_table("a.b", rows, primary_key="id", properties=properties)
    reader = nb.connect(lake).table("a.b")
    for number in range(count):
        writer.upsert([{"id": number % 100, "v": number}])
        assert reader.refresh().get(number % 100) == {"id": number % 100, "v": number}
        if number % 10 == 9:
            writer.compact()
            writer.expire(keep=3)
    return writer, reader


def test_manifests_and_snapshots_of_the_past_are_removed(tmp_path: Path) -> None:
    before = len(metadata._plain), len(metadata._arrow_schema)
    commits(tmp_path / "lake", 120)
    gc.collect()
    last = next(reversed(kept_manifests._manifests._tables.values()))
    assert len(last) <= 2 * 24 + 64  # ten commits of two manifests, and those of a compaction
    assert len(metadata._plain) - before[0] <= 200
    assert len(metadata._arrow_schema) - before[1] <= 40


def test_all_manifests_of_a_snapshot_are_kept(tmp_path: Path) -> None:
    table = nb.connect(tmp_path / "lake").create_table(
        "a.b", pa.table({"id": range(4)}), primary_key="id"
    )
    for number in range(150):
        table.append(pa.table({"id": [1000 + number]}))
    for _ in range(2):  # the second handle reads the pointer, not the manifests
        other = nb.connect(tmp_path / "lake").table("a.b")
        assert other.lookup([1003, 1140]).num_rows == 2
    assert other.explain([1003])["metadata_reads"] <= 2


def test_few_delete_files_of_the_past_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletes, "_KEPT_DELETES", 3)
    cache = deletes._Cache()
    for number in range(10):
        cache.put(f"deletes-{number}", {"data": np.array([number], dtype=np.uint64)})
    assert list(cache._files) == ["deletes-7", "deletes-8", "deletes-9"]
    assert cache._bytes == 24
