"""Manifests, delete files and summaries that do not say what Iceberg says that they should."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nimblepy as nb
from nimblepy.errors import CorruptFileError
from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import DataFile, Metrics
from nimblepy.table.iceberg import metadata, snapshot_commit
from nimblepy.table.reading import plan


@pytest.mark.parametrize("content", [-1, 1, 2, 5])
def test_a_manifest_of_data_has_data(
    lake: nb.Catalog, content: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake.create_table("a.b", pa.table({"n": [1, 2]}), cluster_by="n")
    plain = snapshot_commit.ice_file

    def other(file: DataFile) -> Any:
        made = plain(file)
        made[0] = content
        return made

    monkeypatch.setattr(snapshot_commit, "ice_file", other)
    table.append(pa.table({"n": [3]}))
    monkeypatch.undo()
    plan.clear_caches()
    table = lake.table("a.b")
    steps: list[Callable[[], Any]] = [
        table.to_table,
        lambda: table.count_rows("n > 2"),
        lambda: table.get(3),
        lambda: table.delete("n = 3"),
        table.rewrite_manifests,
    ]
    for step in steps:
        with pytest.raises(CorruptFileError, match=r"\.avro"):
            step()


def _deletes(lake: nb.Catalog, path: Path, rows: Callable[[str], pa.Table]) -> nb.Table:
    """A table with a delete file that another program wrote."""
    table = lake.create_table("a.b", pa.table({"n": range(5)}), cluster_by="n")
    (member,) = table._current.members
    deletes = rows(member.file.path)
    pq.write_table(deletes, path)
    file = DataFile(
        path=str(path),
        format="PARQUET",
        rows=deletes.num_rows,
        bytes=os.path.getsize(path),
        content="position deletes",
        spec_id=0,
        partition=(),
        metrics=Metrics(),
    )
    commit = ice.SnapshotCommit("overwrite")
    commit.added, commit.summary = [file], {}
    commit.attempt(table._metadata)
    return lake.table("a.b")


_NO_DELETES: dict[str, Callable[[str], dict[str, Any]]] = {
    "beyond 64 bits": lambda path: {"file_path": [path], "pos": pa.array([1 << 63], pa.uint64())},
    "no whole number": lambda path: {"file_path": [path], "pos": [1.5]},
    "numbers with a point": lambda path: {"file_path": [path], "pos": [1.0]},
    "no text": lambda path: {"file_path": pa.array([b"\xff\xfe"], pa.binary()), "pos": [1]},
    "numbers as paths": lambda path: {"file_path": [[path]], "pos": [1]},
    "no positions": lambda path: {"file_path": [path]},
    "other names": lambda path: {"FILE_PATH": [path], "POS": [1]},
}


@pytest.mark.parametrize("what", _NO_DELETES)
def test_deletes_that_are_none_are_damage(lake: nb.Catalog, tmp_path: Path, what: str) -> None:
    path = tmp_path / "deletes.parquet"
    table = _deletes(lake, path, lambda name: pa.table(_NO_DELETES[what](name)))
    for step in (table.to_table, lambda: table.get(1), table.compact, lambda: table.num_rows):
        with pytest.raises(CorruptFileError, match=r"deletes\.parquet"):
            step()


def test_deletes_in_other_types_are_read(lake: nb.Catalog, tmp_path: Path) -> None:
    def rows(name: str) -> pa.Table:
        return pa.table({"file_path": [name.encode()] * 2, "pos": pa.array([1, 3], pa.uint8())})

    table = _deletes(lake, tmp_path / "d.parquet", rows)
    assert table.to_table()["n"].to_pylist() == [0, 2, 4]


@pytest.mark.parametrize("said", ["many", "1e3", "²", "-4", "", "9" * 5000])
def test_totals_that_are_no_numbers_are_not_known(lake: nb.Catalog, said: str) -> None:
    table = lake.create_table("a.b", pa.table({"n": [1]}))
    path = ice.local_path(table.metadata_location)
    assert path is not None
    document = json.loads(Path(path).read_text())
    document["snapshots"][0]["summary"]["total-records"] = said
    Path(path).write_text(json.dumps(document))
    again = nb.connect(Path(path).parents[3]).table("a.b")
    assert again.append(pa.table({"n": [2]})).rows_inserted == 1
    assert again.num_rows == 2
    assert again.snapshots().num_rows == 2
    summary = again.iceberg.metadata.current_snapshot().summary
    assert summary["total-data-files"] == "2"
    assert summary["total-records"] is None


def test_what_a_commit_wrote_is_known_after_all_was_forgotten(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", pa.table({"n": [1]}))
    plan.clear_caches()
    table.append(pa.table({"n": [2]}))
    head = table._metadata.head()
    assert head is not None
    assert metadata.kept_lists.get(head.manifest_list) is not None
    plan.clear_caches()
    assert snapshot_commit.kept_lists.get(head.manifest_list) is None
