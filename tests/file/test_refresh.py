"""Files and datasets whose files are replaced while handles are open."""

from __future__ import annotations

import os
import pickle
import shutil
import threading
from pathlib import Path

import pyarrow as pa
import pytest

import nimblepy as nb


def write(path: Path, v: int, rows: int = 10) -> None:
    nb.write(pa.table({"k": range(rows), "v": [v] * rows}), path, cluster_by="k")


def test_a_replaced_file_is_noticed_and_opened(tmp_path: Path) -> None:
    path = tmp_path / "a.nimble"
    write(path, 1)
    file = nb.open(path)
    assert not file.is_stale
    assert file.refresh() is file
    write(path, 2, rows=12)
    assert file.is_stale
    assert file.get(3) == {"k": 3, "v": 1}
    scan = file.scan()
    assert file.refresh() is file
    assert not file.is_stale
    assert (file.get(3), file.num_rows) == ({"k": 3, "v": 2}, 12)
    assert scan.to_table()["v"].to_pylist() == [1] * 10
    assert pickle.loads(pickle.dumps(file)).get(3, columns=["v"]) == {"v": 2}


def test_the_same_content_is_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "a.nimble"
    write(path, 1)
    file = nb.open(path)
    shutil.copy(path, tmp_path / "copy")
    os.replace(tmp_path / "copy", path)
    assert not file.is_stale


def test_a_removed_or_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "a.nimble"
    write(path, 1)
    file = nb.open(path)
    os.remove(path)
    assert file.is_stale
    with pytest.raises(FileNotFoundError):
        file.refresh()
    path.write_bytes(b"no file")
    assert file.is_stale
    with pytest.raises(nb.CorruptFileError):
        file.refresh()
    assert file.get(3) == {"k": 3, "v": 1}
    file.close()
    with pytest.raises(nb.InvalidArgumentError, match="closed"):
        file.refresh()


def test_bytes_are_never_stale(tmp_path: Path) -> None:
    path = tmp_path / "a.nimble"
    write(path, 1)
    file = nb.open(path.read_bytes())
    assert not file.is_stale
    assert file.refresh().get(3) == {"k": 3, "v": 1}


def test_answers_beside_refreshes_are_of_one_file(tmp_path: Path) -> None:
    path = tmp_path / "a.nimble"
    write(path, 0)
    file = nb.open(path)
    stop, wrong = threading.Event(), []

    def read() -> None:
        while not stop.is_set():
            values = set(file.to_table()["v"].to_pylist())
            row = file.get(4)
            if len(values) != 1 or row is None:
                wrong.append((values, row))

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for v in range(1, 40):
        write(path, v)
        file.refresh()
    stop.set()
    for reader in readers:
        reader.join()
    assert (wrong, file.get(4)) == ([], {"k": 4, "v": 39})


def test_a_dataset_names_its_stale_files(tmp_path: Path) -> None:
    for name in "abc":
        write(tmp_path / f"{name}.nimble", 1)
    dataset = nb.open_dataset(tmp_path)
    assert dataset.stale == []
    write(tmp_path / "a.nimble", 2)
    os.remove(tmp_path / "b.nimble")
    write(tmp_path / "d.nimble", 1)
    other = pickle.loads(pickle.dumps(dataset))
    for handle in (dataset, other):
        assert handle.stale == [str(tmp_path / f"{name}.nimble") for name in "abd"]
        assert handle.refresh().stale == []
    for name in "acd":
        os.remove(tmp_path / f"{name}.nimble")
    assert len(dataset.stale) == 3
