"""Datasets at their edges: what is opened, cached, refused and published."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from dataset_files import make_dataset

import nimblepy as nb
from nimblepy.errors import StaleFileError
from nimblepy.expr.filter import parse_filter
from nimblepy.files import listing, publish
from nimblepy.io.location import Location

pytestmark = pytest.mark.sanitizer


def numbers(begin: int, end: int) -> pa.Table:
    names = pa.array([f"v{i}" for i in range(begin, end)], pa.string())
    return pa.table({"k": np.arange(begin, end), "v": names})


def test_dataset_lookup_opens_only_the_file_that_can_have_the_key(tmp_path: Path) -> None:
    make_dataset(tmp_path, [numbers(i, i + 10) for i in range(0, 300, 10)], "k")
    ds = nb.open_dataset(tmp_path)  # the process has the footers
    assert ds.get(155) == {"k": 155, "v": "v155"}
    assert ds._current.open_files.opened == 1
    assert ds.lookup([156, 3, 157]).column("k").to_pylist() == [156, 3, 157]
    assert ds._current.open_files.opened == 2
    assert ds.contains([-1, 300, 299]).to_pylist() == [False, False, True]
    assert ds._current.open_files.opened == 3
    assert ds.get(1000) is None
    assert ds.range(95, 105).column("k").to_pylist() == list(range(95, 105))
    assert "files opened=1" in str(ds.explain([5]))


def test_dataset_keeps_few_files_open(tmp_path: Path) -> None:
    make_dataset(tmp_path, [numbers(i, i + 2) for i in range(0, 40, 2)], "k")
    ds = nb.open_dataset(tmp_path, max_open_files=3)
    assert ds.lookup(list(range(40))).num_rows == 40
    assert len(ds._current.open_files) == 3
    assert ds._current.open_files.opened >= 20


def test_footers_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    described: list[str] = []
    describe = listing._entry

    def counted(file: nb.File, name: str) -> listing.FileEntry:
        described.append(name)
        return describe(file, name)

    monkeypatch.setattr(listing, "_entry", counted)
    ds = make_dataset(tmp_path, [numbers(0, 5), numbers(5, 9)], "k")
    assert len(described) == 2
    assert nb.open_dataset(tmp_path).count_rows("v = 'v7'") == 1
    assert ds.refresh().num_rows == 9
    assert len(described) == 2
    nb.write(numbers(20, 30), ds.paths[0], cluster_by="k")
    nb.write(numbers(9, 12), tmp_path / "new.nimble", cluster_by="k")
    assert ds.refresh().num_rows == 17
    assert sorted(described[2:]) == sorted([os.path.basename(ds.paths[-1]), "new.nimble"])


def test_dataset_pickles_with_its_files(tmp_path: Path) -> None:
    ds = make_dataset(tmp_path, [numbers(0, 5)], "k")
    make_dataset(tmp_path, [numbers(5, 9)], "k")
    again = pickle.loads(pickle.dumps(ds))
    assert (len(again.paths), again.num_rows) == (1, 5)
    assert again.get(3)["v"] == "v3"
    assert again.refresh().num_rows == 9


def test_files_of_a_running_job_are_invisible(tmp_path: Path) -> None:
    make_dataset(tmp_path, [numbers(0, 5)], "k")
    directory = Location(str(tmp_path))
    folder = Path(publish.temporary_folder(directory, "job").path)
    folder.mkdir(parents=True)
    nb.write(numbers(5, 9), folder / "0.nimble", cluster_by="k")
    nb.write(numbers(5, 9), tmp_path / "_part.nimble", cluster_by="k")
    assert nb.open_dataset(tmp_path).num_rows == 5
    publish.publish(directory, "job", ["0.nimble"], overwrite=False)
    assert nb.open_dataset(tmp_path).num_rows == 9
    assert not (tmp_path / "_temporary").exists()


def test_a_failed_publication_leaves_nothing_visible(tmp_path: Path) -> None:
    make_dataset(tmp_path, [numbers(0, 5)], "k")
    directory = Location(str(tmp_path))
    for overwrite in (False, True):
        folder = Path(publish.temporary_folder(directory, "job").path)
        folder.mkdir(parents=True)
        nb.write(numbers(5, 9), folder / "0.nimble", cluster_by="k")
        with pytest.raises(FileNotFoundError):
            publish.publish(directory, "job", ["0.nimble", "missing.nimble"], overwrite=overwrite)
        publish.discard(directory, "job")
        assert nb.open_dataset(tmp_path).num_rows == 5


def test_overwrite_publishes_and_then_removes(tmp_path: Path) -> None:
    ds = make_dataset(tmp_path, [numbers(0, 5)], "k")
    directory = Location(str(tmp_path))
    folder = Path(publish.temporary_folder(directory, "job").path)
    folder.mkdir(parents=True)
    nb.write(pa.table({"other": [1]}), folder / "0.nimble")
    publish.publish(directory, "job", ["0.nimble"], overwrite=True)
    assert nb.open_dataset(tmp_path).schema.names == ["other"]
    assert ds.num_rows == 5  # until it is refreshed
    assert ds.refresh().num_rows == 1


def test_dataset_refuses_files_that_differ(tmp_path: Path) -> None:
    for i in (3, 1, 2):
        nb.write(numbers(i * 10, i * 10 + 5), tmp_path / f"{i}.nimble", cluster_by="k")
    ds = nb.open_dataset(tmp_path)
    assert ds.num_rows == 15
    assert ds.paths == [str(tmp_path / f"{i}.nimble") for i in (1, 2, 3)]
    assert ds.get(22)["v"] == "v22"
    nb.write(pa.table({"other": [1]}), tmp_path / "4.nimble")
    with pytest.raises(
        nb.InvalidArgumentError, match=r"1\.nimble and 4\.nimble have different col"
    ):
        nb.open_dataset(tmp_path)
    nb.write(numbers(0, 5), tmp_path / "4.nimble", cluster_by="v")
    with pytest.raises(nb.InvalidArgumentError, match="different cluster keys: k; v"):
        nb.open_dataset(tmp_path)


def test_dataset_missing_empty_or_damaged_directories_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        nb.open_dataset(tmp_path / "nowhere")
    with pytest.raises(nb.InvalidArgumentError, match=r"no \*\.nimble files"):
        nb.open_dataset(tmp_path)
    ds = make_dataset(tmp_path, [numbers(0, 5), numbers(5, 9)], "k")
    data = Path(ds.paths[1])
    data.write_bytes(data.read_bytes()[:-10])
    with pytest.raises(nb.CorruptFileError, match=data.name):
        nb.open_dataset(tmp_path)


def test_dataset_file_that_was_replaced_is_noticed(tmp_path: Path) -> None:
    make_dataset(tmp_path, [numbers(0, 5)], "k")
    ds = nb.open_dataset(tmp_path)
    nb.write(numbers(0, 6), ds.paths[0], cluster_by="k")
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
    make_dataset(tmp_path, tables, [key], presorted=False)
    ds = nb.open_dataset(tmp_path)
    parsed = parse_filter(text, ds.schema)
    batches = pa.concat_tables(tables).to_batches()
    want = pa.Table.from_batches(map(parsed.apply, batches), tables[0].schema)
    assert sorted(ds.to_table(filter=text).column("k").to_pylist()) == want.column("k").to_pylist()
    assert ds.scan(filter=text).count() == want.num_rows
    most = {"k = 17": 1, "k < 20": 3, "k > 29": 3, "k IN (3, 44)": 2, "k = 1000": 0, "1 = 0": 0}
    assert ds._current.open_files.opened <= most.get(text, 5)


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


@pytest.mark.cost
def test_filter_opens_only_files_whose_zone_maps_allow_rows(tmp_path: Path) -> None:
    for number in range(12):
        rows = {
            "k": list(range(9)),
            "v": [number * 10 + i for i in range(8)] + [None],
            "s": [f"{number:02}-{i}" for i in range(9)],
            "x": [float(number)] * 8 + [float("nan") if number == 3 else 0.5],
            "n": pa.array([number if number % 2 else None] * 9, pa.int64()),
        }
        nb.write(pa.table(rows), tmp_path / f"{number}.nimble", cluster_by=["k"])
    with nb.open_dataset(tmp_path, max_open_files=1) as dataset:
        files = dataset._current.open_files
        for text, rows_found, opened in (
            ("v = 25", 1, 1),
            ("v IN (25, 77, 1000)", 2, 2),
            ("v BETWEEN 38 AND 51 AND k < 5", 7, 2),
            ("v < 0", 0, 0),
            ("s LIKE '07-%'", 9, 1),
            ("x > 1e300", 1, 1),
            ("v = 25 OR s = '11-3'", 2, 2),
            ("n IS NOT NULL AND v < 25", 8, 1),
            ("v + k > 1e6", 0, 12),
        ):
            assert dataset.count_rows(text) == rows_found  # reads the zone maps
            before = files.opened
            assert dataset.count_rows(text) == rows_found
            # The file that is still open is not opened again.
            assert opened - 1 <= files.opened - before <= opened, text
