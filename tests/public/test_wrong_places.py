"""Addresses, tables and lakes in places that take something else: the error says what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import nimblepy as nb


@pytest.fixture
def lake(tmp_path: Path) -> str:
    nb.connect(tmp_path / "lake").create_table("s.users", {"id": [1]}, primary_key="id")
    return str(tmp_path / "lake")


OPENS: dict[str, Callable[[str], object]] = {
    "open": nb.open,
    "open_dataset": nb.open_dataset,
    "scan_polars": nb.scan_polars,
    "index_join": lambda place: nb.index_join({"id": [1]}, place, on="id"),
}


@pytest.mark.parametrize("how", OPENS)
def test_uris_that_are_not_files(how: str) -> None:
    with pytest.raises(nb.InvalidArgumentError, match=r"nb\.connect\('nimble://127"):
        OPENS[how]("nimble://127.0.0.1:9")
    with pytest.raises(nb.InvalidArgumentError, match="foo://x"):
        OPENS[how]("foo://x")


@pytest.mark.parametrize("how", ["open", "scan_polars", "index_join"])
def test_tables_of_a_lake_are_opened_with_connect(lake: str, how: str) -> None:
    place = f"{lake}#s.users"
    with pytest.raises(
        nb.InvalidArgumentError, match=r"nb\.connect\('.*lake'\)\.table\('s\.users'\)"
    ):
        OPENS[how](place)


def test_a_file_may_have_a_hash_in_its_name(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    path = str(tmp_path / "a#b.nimble")
    nb.write({"id": [1]}, path)
    assert nb.open(path).num_rows == 1


def test_connect_expands_the_home_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    nb.connect("~/lake").create_table("a.b", {"id": [1]})
    assert os.path.exists(tmp_path / "lake" / "catalog.db")
    assert nb.connect(tmp_path / "lake", create=False).tables() == ["a.b"]


def test_serve_says_how_to_name_the_tables_of_a_lake(lake: str) -> None:
    with pytest.raises(
        nb.InvalidArgumentError, match=r"is a lake; name the tables to serve: serve\("
    ):
        nb.serve(lake)
    with pytest.raises(nb.InvalidArgumentError, match=r"\{'users': 's\.users'\}"):
        nb.serve(lake, "s.users")


_MANY = """
import resource, sys
import nimblepy as nb
resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
dataset = nb.open_dataset(sys.argv[1], mmap=False)
assert dataset.count_rows("v >= 0") == 100
opened = []
try:
    for i in range(200):
        opened.append(nb.open(f"{sys.argv[1]}/{i % 100:03}.nimble", mmap=False))
except OSError:
    pass
count = len(opened)
for file in opened:
    file.close()
print(count, dataset.count_rows("v >= 0"))
"""


def test_open_uses_descriptors_that_a_dataset_keeps(tmp_path: Path) -> None:
    for i in range(100):
        nb.write({"v": [i]}, tmp_path / f"{i:03}.nimble")
    run = subprocess.run(
        [sys.executable, "-c", _MANY, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    opened, rows = map(int, run.stdout.split())
    assert opened > 100  # the pool had 64 of 128, and gave all but the last
    assert rows == 100
