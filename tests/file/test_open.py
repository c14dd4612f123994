"""What an open file tells about itself, and what open refuses."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import nimblepy as nb

pytestmark = pytest.mark.sanitizer

Store = Callable[..., Any]
TABLE = pa.table(
    {"id": [3, 1, 2], "name": ["c", "a", None], "place": [{"lat": 1.0}, None, {"lat": 2.0}]}
)


@pytest.fixture
def file(store: Store) -> Any:
    cluster_by = [nb.SortKey("id", descending=True, nulls_first=True), "name"]
    return store(TABLE, cluster_by=cluster_by, unique=True, metadata={"by": "me"})


def test_file_attributes_describe_what_was_written(file: Any, path: str) -> None:
    assert file.num_rows == 3
    assert file.size_bytes == os.path.getsize(path)
    assert file.schema.equals(TABLE.schema, check_metadata=True)
    assert isinstance(file.schema, pa.Schema)
    assert file.cluster_by == [
        nb.SortKey("id", descending=True, nulls_first=True),
        nb.SortKey("name"),
    ]
    assert isinstance(file.cluster_by, list)
    assert file.unique is True
    assert file.format_version
    assert {str(k) for k in file.metadata} <= {"by", "b'by'"}


def test_file_indexes_lists_the_cluster_index(file: Any, store: Store) -> None:
    (index,) = file.indexes
    assert index.kind == "cluster"
    assert list(index.columns) == file.cluster_by
    assert index.num_keys == 3
    assert 0 < index.size_bytes < file.size_bytes
    assert index.has_bloom is False
    bloom = store(TABLE, cluster_by="id", options=nb.WriteOptions(cluster_bloom_bits_per_key=10.0))
    assert bloom.indexes[0].has_bloom is True


def test_file_without_cluster_key_has_no_index(store: Store) -> None:
    plain = store(TABLE)
    assert plain.cluster_by == []
    assert plain.unique is False
    assert plain.indexes == []
    assert not plain.metadata


def test_file_repr_says_what_it_is_in_few_lines(file: Any, path: str) -> None:
    text = repr(file)
    assert "3" in text
    assert Path(path).name in text
    assert len(text) < 1_000
    assert str(file)


def test_file_layout_names_every_column_and_adds_up(file: Any) -> None:
    layout = file.layout()
    text = str(layout)
    for name in ("id", "name", "place"):
        assert name in text
    assert layout.rows == 3
    assert layout.size_bytes == file.size_bytes
    kinds = {node.kind for node in layout.walk()}
    assert {"file", "stripe", "column", "index"} <= kinds
    assert any(node.encoding for node in layout.walk())


def test_file_layout_columns_of_stripes_hold_all_rows(store: Store) -> None:
    table = pa.table({"a": range(100), "b": [str(i) for i in range(100)]})
    layout = store(table, options=nb.WriteOptions(stripe_rows=30)).layout()
    stripes = [node for node in layout.walk() if node.kind == "stripe"]
    assert [node.rows for node in stripes] == [30, 30, 30, 10]
    for stripe in stripes:
        assert [c.name for c in stripe.children if c.kind == "column"] == ["a", "b"]


def test_file_verify_intact_file_is_silent(file: Any) -> None:
    assert not isinstance(file.verify(), bool) or file.verify() is True


def test_file_explain_lookup_names_the_cluster_index(file: Any) -> None:
    plan = file.explain([(1, "a")])
    assert isinstance(plan, nb.Plan)
    assert "cluster" in (plan.index or "")
    assert "cluster" in str(plan)


def test_file_explain_range_and_scan_print_a_tree(file: Any) -> None:
    assert "cluster" in str(file.explain(lower=3, upper=1))
    assert str(file.explain(filter="place.lat > 1"))
    assert str(file.scan(filter="place.lat > 1").explain())


def test_file_io_stats_start_at_open_and_reset(path: str) -> None:
    nb.write(TABLE, path, cluster_by="id")
    file = nb.open(path, mmap=False)
    assert file.io_stats.reads == 1
    assert file.io_stats.bytes_read > 0
    file.reset_io_stats()
    assert file.io_stats == nb.IoStats()


def test_open_missing_file_and_directory_are_os_errors(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nope\.nimble"):
        nb.open(tmp_path / "nope.nimble")
    for mmap in (True, False):
        with pytest.raises(OSError, match=tmp_path.name):
            nb.open(tmp_path, mmap=mmap)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_open_unreadable_file_is_a_permission_error(path: str) -> None:
    nb.write(TABLE, path)
    os.chmod(path, 0)
    with pytest.raises(PermissionError):
        nb.open(path)


@pytest.mark.parametrize("source", [5, None, 1.5, object(), ["a"], pa.table({"a": [1]})], ids=str)
def test_open_source_of_wrong_type_is_refused(source: Any) -> None:
    with pytest.raises((nb.InvalidArgumentError, TypeError)):
        nb.open(source)


def test_open_text_file_object_is_refused(path: str) -> None:
    nb.write(TABLE, path)
    with open(path, encoding="latin-1") as source, pytest.raises((nb.NimbleError, TypeError)):
        nb.open(source)


@pytest.mark.parametrize("how", [{"cache_bytes": -1}, {"verify": "bogus"}, {"verify": 3}], ids=str)
def test_open_bad_option_is_refused_by_name(path: str, how: dict[str, Any]) -> None:
    nb.write(TABLE, path)
    with pytest.raises(nb.InvalidArgumentError, match=next(iter(how))):
        nb.open(path, **how)


def test_open_unicode_and_spaces_in_path_work(tmp_path: Path) -> None:
    path = tmp_path / "ünï çode 𝄞 #1?.nimble"
    nb.write(TABLE, path)
    assert nb.open(path).num_rows == 3
    assert nb.open(str(path)).to_table().equals(TABLE)


def test_open_twice_in_one_expression_frees_the_first(path: str) -> None:
    nb.write(TABLE, path)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for _ in range(50):
        nb.open(path, mmap=False).to_table()
        nb.open(path).to_table()
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before + 4


def test_a_directory_is_refused_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match=r"nb\.open_dataset .* nb\.convert"):
        nb.open(tmp_path)


def test_the_name_of_a_column_is_no_index(tmp_path: Path) -> None:
    with pytest.raises(nb.InvalidArgumentError, match=r"nb\.VectorIndex, got 'dest'"):
        nb.write({"dest": [1]}, tmp_path / "t.nimble", indexes="dest")  # type: ignore[arg-type]


def test_a_name_that_is_no_utf8_is_told(tmp_path: Path) -> None:
    """It was a TypeError of the core, and a RuntimeError where it was written."""
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.nimble")
    with pytest.raises(nb.InvalidArgumentError, match="is not UTF-8"):
        nb.write(TABLE, path)
    Path(path).write_bytes(b"x")
    for given in (path, Path(path)):
        with pytest.raises(nb.InvalidArgumentError, match="is not UTF-8"):
            nb.open(given)


@pytest.mark.parametrize("name", ["a#1.nimble", "a?1.nimble"])
def test_what_would_end_a_uri_is_refused(tmp_path: Path, name: str) -> None:
    """The file was written as `a`, in the place of any of that name."""
    with pytest.raises(nb.InvalidArgumentError, match="%23 and %3F"):
        nb.write(TABLE, f"file://{tmp_path}/{name}")
    assert list(tmp_path.iterdir()) == []
    nb.write(TABLE, f"file://{tmp_path}/a%231.nimble")
    assert nb.open(tmp_path / "a#1.nimble").num_rows == 3
