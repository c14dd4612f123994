"""Indexes of Parquet files while other writers and other handles change things."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

import nimblepy as nb
from nimblepy.errors import CorruptFileError
from nimblepy.foreign import handle as handles
from nimblepy.foreign.build import entry_schema
from nimblepy.foreign.records import ROW


def write(path: Path, ids: Any, tag: str = "") -> None:
    values = [int(i) for i in ids]
    pq.write_table(pa.table({"id": values, "tag": [f"{tag}{i}" for i in values]}), path)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    folder = tmp_path / "lake"
    folder.mkdir()
    write(folder / "b.parquet", range(100))
    write(folder / "d.parquet", range(100, 200))
    return folder


def test_refresh_while_another_handle_replaces_the_index(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entries were of one index file, and the record of the next: rows had other numbers."""
    src = nb.index_files(lake, tmp_path / "e.nbx", key="id")
    write(lake / "c.parquet", range(200, 250))
    open_index = handles.open_index
    pending = [lambda: nb.index_files(lake / "d.parquet", tmp_path / "e.nbx", key="id")]

    def opened(*args: Any) -> Any:
        found = open_index(*args)
        if pending:
            pending.pop()()
        return found

    monkeypatch.setattr(handles, "open_index", opened)
    src.refresh()
    assert [src.get(i, ["tag"]) for i in (5, 150, 220)] == [
        {"tag": "5"},
        {"tag": "150"},
        {"tag": "220"},
    ]


def test_stale_is_empty_after_another_handle_refreshed(lake: Path, tmp_path: Path) -> None:
    src = nb.index_files(lake, tmp_path / "e.nbx", key="id")
    write(lake / "b.parquet", range(300, 320))
    assert src.get(5) is None
    assert src.get(305, ["id"]) == {"id": 305}  # indexed again for this handle
    assert src.stale == [str(lake / "b.parquet")]
    nb.open(tmp_path / "e.nbx").refresh()
    src.refresh()
    assert src.stale == []


def test_refresh_takes_the_paths_that_the_index_has_now(lake: Path, tmp_path: Path) -> None:
    src = nb.index_files(lake / "b.parquet", tmp_path / "e.nbx", key="id")
    nb.index_files(lake, tmp_path / "e.nbx", key="id")
    src.refresh()
    assert src.get(150, ["id"]) == {"id": 150}
    write(lake / "e.parquet", [500])
    assert src.stale == [str(lake / "e.parquet")]
    assert src.refresh().get(500, ["id"]) == {"id": 500}


@pytest.mark.parametrize("kind", ["sorted", "hash"])
def test_rows_of_equal_keys_are_in_order_after_refresh(
    lake: Path, tmp_path: Path, kind: Any
) -> None:
    src = nb.index_files(lake, tmp_path / "e.nbx", key="id", kind=kind)
    write(lake / "a.parquet", [7, 107], "a")
    write(lake / "c.parquet", [7, 107], "c")
    src.refresh()
    anew = nb.index_files(lake, tmp_path / "anew.nbx", key="id", kind=kind)
    for one in (src, anew):
        assert one.get(7, ["tag"]) == {"tag": "a7"}
        assert one.lookup([7, 107]).column("tag").to_pylist() == [
            *("a7", "7", "c7"),
            *("a107", "c107", "107"),
        ]


def test_index_file_that_its_own_pattern_matches(lake: Path) -> None:
    src = nb.index_files(lake / "*", lake / "e.nbx", key="id")
    assert nb.index_files(lake / "*", lake / "e.nbx", key="id").num_rows == 200
    write(lake / "c.parquet", [900])
    assert src.stale == [str(lake / "c.parquet")]
    assert src.refresh().get(900, ["id"]) == {"id": 900}


def test_a_change_that_only_the_footer_shows_is_indexed_again(lake: Path, tmp_path: Path) -> None:
    """The handle raised for ever, and its message said that refresh() would help."""
    path = lake / "b.parquet"

    def write_plain(ids: list[int]) -> None:
        table = pa.table({"id": ids, "tag": list(map(str, ids))})
        pq.write_table(table, path, compression="none", use_dictionary=False)

    write_plain([*range(100)])
    src = nb.index_files(lake, tmp_path / "e.nbx", key="id")
    before = os.stat(path)
    write_plain([*range(99), 98])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = os.stat(path)
    assert (after.st_ino, after.st_size) == (before.st_ino, before.st_size)
    expected = sorted([*range(99), 98, *range(100, 200)])
    assert sorted(src.to_table(["id"])["id"].to_pylist()) == expected
    assert src.get(99) is None
    src.refresh()
    again = nb.open(tmp_path / "e.nbx")
    assert again.get(99) is None
    assert again.count([98]).to_pylist() == [2]


@pytest.mark.parametrize("kind", ["sorted", "hash"])
def test_objects_of_a_store_that_were_replaced_are_noticed(
    lake: Path, tmp_path: Path, kind: Any
) -> None:
    """A store's object was checked once only, although pyarrow opens it for each read."""
    store = pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem())
    src = nb.index_files("lake", "e.nbx", key="id", kind=kind, filesystem=store)
    assert src.get(7) == {"id": 7, "tag": "7"}
    assert src.to_table().num_rows == 200
    write(lake / "b.parquet", range(0, 200, 2), "new")
    assert sorted(src.to_table(["tag"]).column("tag").to_pylist()[:100]) == sorted(
        f"new{i}" for i in range(0, 200, 2)
    )
    assert src.get(7) is None
    assert src.get(150) == {"id": 150, "tag": "new150"}


def test_row_numbers_past_the_files_are_damage(lake: Path, tmp_path: Path) -> None:
    path = tmp_path / "e.nbx"
    src = nb.index_files(lake, path, key="id")
    record = src._current.record
    schema = entry_schema(record)
    entries = pa.table({"id": [1, 2], ROW: pa.array([5, 200], pa.uint64())}, schema=schema)
    nb.write(entries, path, cluster_by=["id", ROW], metadata=record.to_metadata())
    damaged = nb.open(path)
    assert damaged.get(1) == {"id": 5, "tag": "5"}
    for call in (
        lambda: damaged.get(2),
        lambda: damaged.lookup([2]),
        lambda: damaged.range(0, 9),
        lambda: damaged.count([2]),
    ):
        with pytest.raises(CorruptFileError, match="row 200, but the files have 200"):
            call()
    write(lake / "z.parquet", [300])
    with pytest.raises(CorruptFileError, match="row 200, but the files have 200"):
        damaged.refresh()


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_closed_handle_closes_its_files(lake: Path, tmp_path: Path) -> None:
    def open_files() -> list[str]:
        links = [os.readlink(f) for f in Path("/proc/self/fd").iterdir() if os.path.lexists(f)]
        return [link for link in links if link.startswith(str(tmp_path))]

    src = nb.index_files(lake, tmp_path / "e.nbx", key="id")
    src.lookup(np.arange(0, 200, 50))
    assert open_files()
    src.close()
    assert open_files() == []
