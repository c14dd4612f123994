"""Datasets at their edges: commits, versions, what is opened, what is refused."""

from __future__ import annotations

import errno
import os
import pickle
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from dataset_files import make_dataset, stage

import nimblepy as nb
from nimblepy.errors import StaleFileError
from nimblepy.expr.filter import parse_filter
from nimblepy.files import commit as commit_module
from nimblepy.files.commit import (
    _put,
    discard,
    forget_old_versions,
    publish,
    staging_folder,
    sweep,
)
from nimblepy.files.manifest import manifest_name, read_manifest
from nimblepy.schema.types import as_sort_keys

pytestmark = pytest.mark.sanitizer


def numbers(begin: int, end: int) -> pa.Table:
    names = pa.array([f"v{i}" for i in range(begin, end)], pa.string())
    return pa.table({"k": np.arange(begin, end), "v": names})


def test_dataset_lookup_opens_only_the_file_that_can_have_the_key(tmp_path: Path) -> None:
    ds = make_dataset(tmp_path, [numbers(i, i + 10) for i in range(0, 300, 10)], "k")
    assert ds.get(155) == {"k": 155, "v": "v155"}
    assert ds.current.open_files.opened == 1
    assert ds.lookup([156, 3, 157]).column("k").to_pylist() == [156, 3, 157]
    assert ds.current.open_files.opened == 2
    assert ds.contains([-1, 300, 299]).to_pylist() == [False, False, True]
    assert ds.current.open_files.opened == 3
    assert ds.get(1000) is None
    assert ds.range(95, 105).column("k").to_pylist() == list(range(95, 105))
    assert "files opened=1" in str(ds.explain([5]))


def test_dataset_keeps_few_files_open(tmp_path: Path) -> None:
    make_dataset(tmp_path, [numbers(i, i + 2) for i in range(0, 40, 2)], "k")
    ds = nb.open_dataset(tmp_path, max_open_files=3)
    assert ds.lookup(list(range(40))).num_rows == 40
    assert len(ds.current.open_files) == 3
    assert ds.current.open_files.opened >= 20


def test_dataset_pickles_with_its_version(tmp_path: Path) -> None:
    ds = make_dataset(tmp_path, [numbers(0, 5)], "k")
    make_dataset(tmp_path, [numbers(5, 9)], "k")
    again = pickle.loads(pickle.dumps(ds))
    assert (again.version, again.num_rows) == (1, 5)
    assert nb.open_dataset(tmp_path).num_rows == 9


def test_dataset_append_and_overwrite_are_versions(tmp_path: Path) -> None:
    first = make_dataset(tmp_path, [numbers(0, 5)], "k")
    second = make_dataset(tmp_path, [numbers(5, 9)], "k")
    assert (first.num_rows, second.num_rows) == (5, 9)
    third = make_dataset(tmp_path, [numbers(0, 2)], "k", overwrite=True)
    assert third.to_table().column("k").to_pylist() == [0, 1]
    assert second.to_table().num_rows == 9  # the version before stays readable
    assert nb.open_dataset(tmp_path, version=1).num_rows == 5
    with pytest.raises(nb.InvalidArgumentError, match="no version 9"):
        nb.open_dataset(tmp_path, version=9)


def test_dataset_forgets_versions_replaced_long_ago(tmp_path: Path) -> None:
    for i in range(4):
        make_dataset(tmp_path, [numbers(i, i + 1)], "k", overwrite=i % 2 == 1)
    forget_old_versions(str(tmp_path))
    assert nb.open_dataset(tmp_path, version=1).num_rows == 1
    forget_old_versions(str(tmp_path), older_than=-1)
    assert [nb.open_dataset(tmp_path, version=v).num_rows for v in (3, 4)] == [2, 1]
    with pytest.raises(nb.InvalidArgumentError, match="no version 2; there are 3, 4"):
        nb.open_dataset(tmp_path, version=2)
    assert len([name for name in os.listdir(tmp_path) if name.endswith(".nimble")]) == 3
    # A commit that read version 2 long ago must not take a name that was given up since.
    late = replace(read_manifest(str(tmp_path), 3, None), version=2)
    assert not _put(str(tmp_path), late)
    assert nb.open_dataset(tmp_path).version == 4


def test_dataset_batch_is_added_once(tmp_path: Path) -> None:
    for _ in range(2):
        ds = make_dataset(tmp_path, [numbers(0, 5)], "k", batch=("stream", 7))
    assert (ds.num_rows, ds.version) == (5, 1)
    make_dataset(tmp_path, [numbers(5, 6)], "k", batch=("stream", 8))
    make_dataset(tmp_path, [numbers(9, 10)], "k", batch=("stream", 7))
    assert make_dataset(tmp_path, [numbers(6, 7)], "k", batch=("other", 0)).num_rows == 7
    assert os.listdir(tmp_path / "_staging") == []


def test_dataset_appends_at_once_all_arrive(tmp_path: Path) -> None:
    jobs = [stage(tmp_path, [numbers(i, i + 1)], "k") for i in range(8)]

    def commit(job: str, entries: Any) -> None:
        publish(
            str(tmp_path), job, entries, schema=numbers(0, 1).schema, cluster_by=as_sort_keys("k")
        )

    threads = [threading.Thread(target=commit, args=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ds = nb.open_dataset(tmp_path)
    assert ds.to_table().column("k").to_pylist() == list(range(8))
    assert ds.version == 8


def test_dataset_staged_files_are_invisible_and_swept_when_old(tmp_path: Path) -> None:
    make_dataset(tmp_path, [numbers(0, 5)], "k")
    job, _ = stage(tmp_path, [numbers(5, 9)], "k")
    stray = tmp_path / "stray.nimble"
    nb.write(numbers(7, 8), stray, cluster_by="k")
    assert nb.open_dataset(tmp_path).num_rows == 5
    sweep(str(tmp_path))
    assert os.path.isdir(staging_folder(str(tmp_path), job))
    assert stray.exists()
    old = time.time() - 7200
    os.utime(stray, (old, old))
    sweep(str(tmp_path), older_than=3600)
    assert os.path.isdir(staging_folder(str(tmp_path), job))
    assert not stray.exists()
    sweep(str(tmp_path), older_than=-1)
    assert not os.path.isdir(staging_folder(str(tmp_path), job))
    assert nb.open_dataset(tmp_path).num_rows == 5


def age(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


def commit(directory: Path, job: str, entries: Any, **keywords: Any) -> int:
    return publish(
        str(directory),
        job,
        entries,
        schema=numbers(0, 1).schema,
        cluster_by=as_sort_keys("k"),
        **keywords,
    )


def test_dataset_commit_of_an_old_job_survives_the_sweep_of_a_faster_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The files of a job that took two days, moved up by a commit that then lost the race for its
    # version, were swept by the commit that won it; the retry named files that were gone.
    make_dataset(tmp_path, [numbers(0, 5)], "k")
    slow, slow_entries = stage(tmp_path, [numbers(5, 9)], "k")
    for entry in slow_entries:
        age(Path(staging_folder(str(tmp_path), slow)) / entry.file, 2 * 24 * 3600)
    fast, fast_entries = stage(tmp_path, [numbers(20, 23)], "k")
    put = commit_module._put

    def loses_first(directory: str, manifest: Any) -> bool:
        monkeypatch.setattr(commit_module, "_put", put)
        commit(tmp_path, fast, fast_entries)
        return put(directory, manifest)

    monkeypatch.setattr(commit_module, "_put", loses_first)
    assert commit(tmp_path, slow, slow_entries) == 3
    assert nb.open_dataset(tmp_path).to_table().num_rows == 12


def test_dataset_commit_that_readers_see_has_not_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_dataset(tmp_path, [numbers(0, 5)], "k")
    job, entries = stage(tmp_path, [numbers(5, 9)], "k")
    sync = commit_module.sync_path

    def fails(path: str) -> None:
        if path.endswith(commit_module.FOLDER):
            raise OSError(errno.EIO, "Input/output error")
        sync(path)

    monkeypatch.setattr(commit_module, "sync_path", fails)
    assert commit(tmp_path, job, entries) == 2
    assert nb.open_dataset(tmp_path).to_table().num_rows == 9


def test_dataset_commit_is_given_up_where_a_file_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_dataset(tmp_path, [numbers(0, 5)], "k")
    job, entries = stage(tmp_path, [numbers(5, 9)], "k")
    read = commit_module.newest_manifest

    def loses_a_file(directory: str) -> Any:
        for entry in entries:
            moved = tmp_path / f"{job}-{entry.file}"
            moved.unlink(missing_ok=True)
        return read(directory)

    answers = iter([False, True])  # lost once, then put without its files

    monkeypatch.setattr(commit_module, "newest_manifest", loses_a_file)
    monkeypatch.setattr(commit_module, "_put", lambda *_: next(answers))
    with pytest.raises(FileNotFoundError, match=job):
        commit(tmp_path, job, entries)
    monkeypatch.undo()
    assert nb.open_dataset(tmp_path).to_table().num_rows == 5
    next(tmp_path.glob("*.nimble")).unlink()
    with pytest.raises(FileNotFoundError, match="missing"):
        commit(tmp_path, *stage(tmp_path, [numbers(9, 12)], "k"))
    assert nb.open_dataset(tmp_path).version == 1


def test_dataset_commit_syncs_the_directory_before_the_manifest_names_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, entries = stage(tmp_path, [numbers(0, 5)], "k")
    events: list[str] = []
    sync, link = os.fsync, os.link

    def fsync(descriptor: int) -> None:
        events.append(f"sync {os.path.realpath(f'/proc/self/fd/{descriptor}')}")
        sync(descriptor)

    def linked(old: Any, new: Any) -> None:
        named = [name for name in os.listdir(tmp_path) if name.endswith(".nimble")]
        events.append(f"link with {len(named)} files")
        link(old, new)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "link", linked)
    commit(tmp_path, job, entries)
    at = events.index("link with 1 files")
    assert f"sync {tmp_path.resolve()}" in events[:at]


def test_dataset_overwrite_does_not_drop_what_was_appended_meanwhile(tmp_path: Path) -> None:
    first = make_dataset(tmp_path, [numbers(0, 5)], "k")
    job, entries = stage(tmp_path, [numbers(0, 2)], "k")
    make_dataset(tmp_path, [numbers(5, 9)], "k")
    with pytest.raises(nb.ConflictError, match="version 2 was committed after"):
        commit(tmp_path, job, entries, overwrite=True, base=first.version)
    assert nb.open_dataset(tmp_path).to_table().num_rows == 9
    assert commit(tmp_path, job, entries, overwrite=True, base=2) == 3
    assert nb.open_dataset(tmp_path).to_table().num_rows == 2


def test_dataset_overwrite_that_loses_the_race_is_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_dataset(tmp_path, [numbers(0, 5)], "k")
    job, entries = stage(tmp_path, [numbers(0, 2)], "k")
    append = stage(tmp_path, [numbers(5, 9)], "k")
    put = commit_module._put

    def loses(directory: str, manifest: Any) -> bool:
        monkeypatch.setattr(commit_module, "_put", put)
        commit(tmp_path, *append)
        return put(directory, manifest)

    monkeypatch.setattr(commit_module, "_put", loses)
    with pytest.raises(nb.ConflictError):
        commit(tmp_path, job, entries, overwrite=True)
    assert nb.open_dataset(tmp_path).to_table().num_rows == 9


def test_dataset_retention_is_chosen_by_the_commit(tmp_path: Path) -> None:
    # It was a constant of an hour, after which readers found their files missing.
    held = make_dataset(tmp_path, [numbers(0, 5)], "k")
    for i in range(3):
        commit(tmp_path, *stage(tmp_path, [numbers(i, i + 1)], "k"), overwrite=True)
        for manifest in (tmp_path / "_manifest").iterdir():
            age(manifest, 5 * 3600)
    assert held.to_table().num_rows == 5
    last = stage(tmp_path, [numbers(8, 9)], "k")
    commit(tmp_path, *last, overwrite=True, retention_seconds=3600)
    assert {v for v in range(1, 6) if (tmp_path / manifest_name(v)).exists()} == {4, 5}
    assert len(list(tmp_path.glob("*.nimble"))) == 2


def test_dataset_discarded_job_leaves_nothing(tmp_path: Path) -> None:
    job, _ = stage(tmp_path, [numbers(0, 5)], "k")
    discard(str(tmp_path), job)
    assert os.listdir(tmp_path / "_staging") == []


def test_dataset_refuses_other_columns_and_keys(tmp_path: Path) -> None:
    make_dataset(tmp_path, [numbers(0, 5)], "k")
    with pytest.raises(nb.InvalidArgumentError, match="clustered by"):
        make_dataset(tmp_path, [numbers(5, 6)], "v")
    with pytest.raises(nb.InvalidArgumentError, match="columns"):
        make_dataset(tmp_path, [numbers(5, 6).select(["k"])], "k")
    assert nb.open_dataset(tmp_path).num_rows == 5


def test_dataset_of_files_without_a_manifest(tmp_path: Path) -> None:
    for i in (3, 1, 2):
        nb.write(numbers(i * 10, i * 10 + 5), tmp_path / f"{i}.nimble", cluster_by="k")
    ds = nb.open_dataset(tmp_path)
    assert (ds.version, ds.num_rows) == (0, 15)
    assert ds.files == ["1.nimble", "2.nimble", "3.nimble"]
    assert ds.get(22)["v"] == "v22"
    nb.write(pa.table({"other": [1]}), tmp_path / "4.nimble")
    with pytest.raises(
        nb.InvalidArgumentError, match=r"1\.nimble and 4\.nimble have different col"
    ):
        nb.open_dataset(tmp_path)


def test_dataset_missing_empty_or_damaged_directories_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        nb.open_dataset(tmp_path / "nowhere")
    with pytest.raises(nb.InvalidArgumentError, match="no manifest and no"):
        nb.open_dataset(tmp_path)
    ds = make_dataset(tmp_path, [numbers(0, 5), numbers(5, 9)], "k")
    data = tmp_path / ds.files[1]
    data.write_bytes(data.read_bytes()[:-10])
    assert nb.open_dataset(tmp_path).get(2)["v"] == "v2"
    with pytest.raises(nb.CorruptFileError, match=data.name):
        nb.open_dataset(tmp_path).get(7)
    (manifest,) = (tmp_path / "_manifest").iterdir()
    content = bytearray(manifest.read_bytes())
    content[-80] ^= 1
    manifest.write_bytes(content)
    with pytest.raises(nb.CorruptFileError, match="_manifest"):
        nb.open_dataset(tmp_path)


def test_dataset_manifest_that_is_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "_manifest").mkdir()
    nb.write(numbers(0, 3), tmp_path / "_manifest" / f"{1:020d}.nimble")
    with pytest.raises(nb.CorruptFileError, match="no manifest"):
        nb.open_dataset(tmp_path)


def test_dataset_file_that_was_replaced_is_noticed(tmp_path: Path) -> None:
    ds = make_dataset(tmp_path, [numbers(0, 5)], "k")
    nb.write(numbers(0, 6), tmp_path / ds.files[0], cluster_by="k")
    with pytest.raises(StaleFileError, match="replaced"):
        ds.get(3)


def test_dataset_without_a_key_scans(tmp_path: Path) -> None:
    ds = make_dataset(tmp_path, [numbers(0, 5), numbers(5, 9)], None)
    assert ds.scan(["k"], filter="k > 3", limit=3).to_table().column("k").to_pylist() == [4, 5, 6]
    with pytest.raises(nb.IndexUnavailableError):
        ds.lookup([3])
    with pytest.raises(nb.IndexUnavailableError):
        ds.get(3)


def test_dataset_secondary_index_asks_every_file(tmp_path: Path) -> None:
    tables = [numbers(0, 5), numbers(5, 9)]
    ds = make_dataset(tmp_path, tables, "k", indexes=[nb.HashIndex("v")])
    assert ds.lookup(["v7", "zz", "v1"], on="v").column("k").to_pylist() == [7, 1]
    assert ds.get("v8", on="v") == {"k": 8, "v": "v8"}
    assert ds.get("zz", on="v") is None
    assert ds.contains(["v7", "zz"], on="v").to_pylist() == [True, False]
    probe = pa.table({"v": ["v8", "q", None, "v0"]})
    assert ds.index_join(probe, on="v", how="left").column("k").to_pylist() == [8, None, None, 0]
    with pytest.raises(nb.InvalidArgumentError, match="unknown column"):
        ds.lookup([1], on="q")


def test_dataset_scan_is_that_of_its_rows(tmp_path: Path) -> None:
    ds = make_dataset(tmp_path, [numbers(i, i + 10) for i in range(0, 50, 10)], "k")
    assert ds.scan(row_range=(8, 23)).to_table().column("k").to_pylist() == list(range(8, 23))
    assert ds.scan(filter="k >= 18", limit=4).count() == 4
    assert ds.scan(filter="k >= 18").count() == 32
    assert ds.scan(limit=7).count() == 7
    assert pa.table(ds.scan(["v"])).num_rows == 50
    assert ds.scan(limit=0).to_table().num_rows == 0
    assert ds.take([49, 0, 0, 20]).column("k").to_pylist() == [49, 0, 0, 20]
    assert ds.take([]).schema == ds.schema
    assert ds.scan(filter="k = 5").explain().children
    with pytest.raises(nb.InvalidArgumentError, match="unknown column"):
        ds.scan(filter="q = 5")
    with pytest.raises(nb.InvalidArgumentError, match="rows"):
        ds.take([50])


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(
    "text",
    ["k = 17", "k < 20", "k <= 20", "k > 29", "k >= 30", "k IN (3, 44)", "k BETWEEN 19 AND 20",
     "k = 5 AND v = 'v5'", "k = 1000", "k <> 3", "v = 'v30'", "k = 3 OR v = 'v44'", "1 = 0"],
)  # fmt: skip
def test_dataset_filter_on_the_first_key_column_leaves_few_files(
    tmp_path: Path, text: str, descending: bool
) -> None:
    key = nb.SortKey("k", descending=descending)
    tables = [numbers(i, i + 10) for i in range(0, 50, 10)]
    ds = make_dataset(tmp_path, tables, [key], presorted=False)
    parsed = parse_filter(text, ds.schema)
    batches = pa.concat_tables(tables).to_batches()
    want = pa.Table.from_batches(map(parsed.apply, batches), tables[0].schema)
    assert sorted(ds.to_table(filter=text).column("k").to_pylist()) == want.column("k").to_pylist()
    assert ds.scan(filter=text).count() == want.num_rows
    most = {"k = 17": 1, "k < 20": 3, "k > 29": 3, "k IN (3, 44)": 2, "k = 1000": 0, "1 = 0": 0}
    assert ds.current.open_files.opened <= most.get(text, 5)


def test_dataset_of_no_rows_answers_with_nothing(tmp_path: Path) -> None:
    ds = make_dataset(tmp_path, [numbers(0, 0)], "k")
    assert ds.get(1) is None
    assert ds.lookup([1, 2]).num_rows == 0
    assert ds.range().num_rows == 0
    assert ds.to_table().schema == numbers(0, 1).schema
    assert nb.index_join(numbers(0, 2), ds, on="k", how="left").num_rows == 2


def test_dataset_reads_through_a_file_system(tmp_path: Path) -> None:
    import fsspec

    make_dataset(tmp_path, [numbers(0, 5), numbers(5, 9)], "k")
    memory = fsspec.filesystem("memory")
    memory.put(str(tmp_path), "/nimble-dataset", recursive=True)
    try:
        ds = nb.open_dataset("/nimble-dataset", filesystem=memory)
        assert ds.lookup([7, 1]).column("v").to_pylist() == ["v7", "v1"]
    finally:
        memory.rm("/nimble-dataset", recursive=True)
