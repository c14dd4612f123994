"""nb.index_files: lookups in Parquet files of others, and what happens when these change."""

from __future__ import annotations

import os
import pickle
import random
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nimblepy as nb
from nimblepy.errors import IndexUnavailableError, InvalidArgumentError, StaleFileError

KINDS = ["sorted", "hash"]


def events(ids: Any) -> pa.Table:
    values = [int(i) for i in ids]
    return pa.table(
        {
            "id": pa.array(values, pa.int64()),
            "user": [str(uuid.UUID(int=i * 7919 + 1)) for i in values],
            "ts": pa.array([i * 1000 for i in values], pa.timestamp("us")),
            "cents": pa.array([None if i % 7 == 0 else i * 3 for i in values], pa.int32()),
        }
    )


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """5 files of 2,000 rows, ids 0 to 9,999 in random order."""
    folder = tmp_path / "lake"
    folder.mkdir()
    ids = np.random.default_rng(1).permutation(10_000)
    for i, part in enumerate(np.split(ids, 5)):
        pq.write_table(events(part), folder / f"f{i}.parquet", row_group_size=700)
    return folder


def ids_of(folder: Path, name: str) -> list[int]:
    found: list[int] = pq.read_table(folder / name).column("id").to_pylist()
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_lookups_answer_like_a_scan(lake: Path, tmp_path: Path, kind: Any) -> None:
    src = nb.index_files(str(lake / "*.parquet"), tmp_path / "events.nbx", key="id", kind=kind)
    assert src.num_rows == 10_000
    assert [info.kind for info in src.indexes] == [kind]
    assert src.get(77) == events([77]).to_pylist()[0]
    assert src.get(77, ["cents"]) == {"cents": None}
    assert src.get(-1) is None
    keys = [3, 9_999, 10_000, 3]
    assert src.lookup(keys).equals(events([3, 9_999, 3]))
    assert src.count(keys).to_pylist() == [1, 1, 0, 1]
    assert src.contains(keys).to_pylist() == [True, True, False, True]
    joined = src.index_join(pa.table({"id": [5, -5, 6]}), on="id", how="left")
    assert isinstance(joined, pa.Table)
    assert joined.column("cents").to_pylist() == [15, None, 18]
    assert src.count_rows("id < 100") == 100
    assert sorted(src.to_table(["id"]).column("id").to_pylist()) == list(range(10_000))
    assert src.head(3).num_rows == 3
    assert src.take([0]).column("id").to_pylist() == ids_of(lake, "f0.parquet")[:1]
    plan = src.explain(keys=[5])
    assert plan["files read"] == 1
    assert plan.index == f"{kind} (id)"


def test_sorted_index_answers_ranges_and_asof(lake: Path, tmp_path: Path) -> None:
    nb.index_files(lake, tmp_path / "e.nbx", key=["id", "ts"])
    src = nb.open(tmp_path / "e.nbx")
    assert isinstance(src, nb.ParquetIndex)
    assert src.range((10,), (14,)).column("id").to_pylist() == [10, 11, 12, 13]
    assert src.range(None, (3,), reverse=True).column("id").to_pylist() == [2, 1, 0]
    assert src.range((9_000,), None, limit=2).column("id").to_pylist() == [9_000, 9_001]
    assert src.prefix((50,)).equals(events([50]))
    assert src.get((50, pa.scalar(50_000, pa.timestamp("us")).as_py())) is not None
    by_time = nb.index_files(lake, tmp_path / "t.nbx", key="ts")
    probe = pa.table({"ts": pa.array([1_500, 20_000_000, -5], pa.timestamp("us"))})
    found = by_time.asof_join(probe, on="ts", columns=["id"])
    assert isinstance(found, pa.Table)
    assert found.column("id").to_pylist() == [1, 9_999, None]
    row = by_time.asof(pa.scalar(2_500, pa.timestamp("us")).as_py(), ["id"])
    assert row == {"id": 2}


def test_hash_index_refuses_ranges_and_other_columns(lake: Path, tmp_path: Path) -> None:
    src = nb.index_files(lake, tmp_path / "e.nbx", key=["id", "user"], kind="hash")
    user = str(uuid.UUID(int=7919 * 8 + 1))
    assert src.get((8, user), ["id"]) == {"id": 8}
    assert src.get((9, user)) is None
    assert src.get({"user": user, "id": 8}, ["id"]) == {"id": 8}
    with pytest.raises(IndexUnavailableError, match="no order"):
        src.range((1, ""), None)
    with pytest.raises(IndexUnavailableError, match="hash index on"):
        src.get(8, on="id")


@pytest.mark.parametrize("kind", KINDS)
def test_equal_keys_nulls_and_special_values(tmp_path: Path, kind: Any) -> None:
    values = [1.5, -0.0, 0.0, float("nan"), None, 1.5, float("inf"), None]
    for i in range(2):
        table = pa.table({"k": pa.array(values, pa.float64()), "n": np.arange(8) + 8 * i})
        pq.write_table(table, tmp_path / f"f{i}.parquet")
    src = nb.index_files(tmp_path, tmp_path / "e.nbx", key="k", kind=kind)

    def rows(key: Any, **keywords: Any) -> list[int]:
        table = src.lookup([key], columns=["n"], on="k", **keywords)
        found: list[int] = table.column("n").to_pylist()
        return found

    assert rows(1.5) == [0, 5, 8, 13]
    assert rows(0.0) == rows(-0.0) == [1, 2, 9, 10]
    assert rows(float("nan")) == [3, 11]
    assert rows(None) == []
    assert rows(None, null_equals=True) == [4, 7, 12, 15]
    assert src.get(1.5) == {"k": 1.5, "n": 0}


@pytest.mark.parametrize("kind", KINDS)
def test_changed_file_is_noticed_and_read_whole(lake: Path, tmp_path: Path, kind: Any) -> None:
    src = nb.index_files(lake, tmp_path / "e.nbx", key="id", kind=kind)
    lost = ids_of(lake, "f2.parquet")[0]
    assert src.get(lost, ["id"]) == {"id": lost}  # its file is open and cached
    pq.write_table(events(range(20_000, 20_500)), lake / "f2.parquet")
    assert src.stale == [str(lake / "f2.parquet")]
    assert src.get(lost) is None
    assert src.get(20_123) == events([20_123]).to_pylist()[0]
    assert src.num_rows == 8_500
    assert src.to_table(["id"]).num_rows == 8_500
    assert src.stale == [str(lake / "f2.parquet")]  # until refresh()
    src.refresh()
    assert src.stale == []
    assert nb.open(tmp_path / "e.nbx").get(20_123, ["id"]) == {"id": 20_123}


def test_truncated_and_removed_files_give_errors(lake: Path, tmp_path: Path) -> None:
    src = nb.index_files(lake, tmp_path / "e.nbx", key="id")
    gone = ids_of(lake, "f1.parquet")[5]
    cut = ids_of(lake, "f3.parquet")[5]
    os.remove(lake / "f1.parquet")
    os.truncate(lake / "f3.parquet", 1_000)
    with pytest.raises(StaleFileError, match=r"f1\.parquet.*removed"):
        src.get(gone)
    with pytest.raises(nb.CorruptFileError, match=r"f3\.parquet"):
        src.get(cut)
    other = ids_of(lake, "f0.parquet")[5]
    assert src.get(other, ["id"]) == {"id": other}
    os.remove(lake / "f3.parquet")
    src.refresh()
    assert src.get(gone) is None
    assert src.num_rows == 6_000


def test_file_changed_in_place_with_the_same_size_and_time(lake: Path, tmp_path: Path) -> None:
    """Footers differ, although ``stat`` does not."""
    path = lake / "f0.parquet"
    src = nb.index_files(lake, tmp_path / "e.nbx", key="id")
    key = ids_of(lake, "f0.parquet")[0]
    status = path.stat()
    data = bytearray(path.read_bytes())
    at = data.rindex(b"parquet-cpp")  # in the footer
    data[at : at + 7] = b"PARQUET"
    with path.open("r+b") as file:
        file.write(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    row = src.get(key, ["id"])
    assert row == {"id": key}
    assert b"PARQUET-cpp" in src._current.record.files[0].footer  # the file was indexed again


def test_refresh_reads_only_new_files(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nimblepy.foreign import build

    src = nb.index_files(lake / "*.parquet", tmp_path / "e.nbx", key="id")
    read: list[str] = []
    keys_of = build._keys_of
    monkeypatch.setattr(
        build, "_keys_of", lambda file, *rest: read.append(file.path) or keys_of(file, *rest)
    )
    assert src.refresh() is src
    pq.write_table(events([50_000]), lake / "a.parquet")  # before the others in order
    assert src.get(50_000) is None
    assert src.stale == [str(lake / "a.parquet")]
    src.refresh()
    assert read == [str(lake / "a.parquet")]
    assert src.get(50_000, ["id"]) == {"id": 50_000}
    assert src.get(4_321) == events([4_321]).to_pylist()[0]
    again = nb.index_files(lake / "*.parquet", tmp_path / "e.nbx", key="id")
    assert read == [str(lake / "a.parquet")]
    assert again.num_rows == 10_001


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(6))
def test_random_histories(tmp_path: Path, kind: Any, seed: int) -> None:
    """Other writers add, replace, remove and touch files; a handle never gives a wrong row."""
    rng = random.Random(seed)
    folder = tmp_path / "lake"
    folder.mkdir()
    content: dict[str, list[int]] = {}

    def write(name: str) -> None:
        content[name] = [rng.randrange(300) for _ in range(rng.choice([1, 5, 60]))]
        options = {"write_page_index": rng.random() < 0.5, "row_group_size": rng.choice([7, 100])}
        pq.write_table(events(content[name]), folder / f"{name}.parquet", **options)

    def rows_of(names: Any) -> dict[int, int]:
        counts: dict[int, int] = {}
        for name in names:
            for key in content[name]:
                counts[key] = counts.get(key, 0) + 1
        return counts

    for name in "abc":
        write(name)
    src = nb.index_files(folder, tmp_path / "e.nbx", key="id", kind=kind)
    known = set(content)
    for _ in range(12):
        step = rng.choice(["add", "replace", "remove", "touch", "refresh", "reopen"])
        if step == "add":
            write(rng.choice("defgh"))
        elif step == "replace":
            write(rng.choice(sorted(content)))
        elif step == "remove" and len(content) > 1:
            name = rng.choice(sorted(content))
            del content[name]
            (folder / f"{name}.parquet").unlink()
        elif step == "touch":
            os.utime(folder / f"{rng.choice(sorted(content))}.parquet")
        elif step == "refresh":
            src.refresh()
            known = set(content)
            assert src.stale == []
        elif step == "reopen":
            src = nb.open(tmp_path / "e.nbx")  # type: ignore[assignment]
        if known <= set(content):
            # Every indexed file is read, so every change is noticed.
            everything = src.to_table(["id"]).column("id").to_pylist()
            expected = rows_of(known)
            assert sorted(everything) == sorted(k for k, n in expected.items() for _ in range(n))
            keys = list(range(300))
            assert src.count(keys).to_pylist() == [expected.get(key, 0) for key in keys]
            key = rng.randrange(300)
            row = src.get(key)
            assert row == (events([key]).to_pylist()[0] if key in expected else None)
        else:
            with pytest.raises(StaleFileError, match="removed"):
                src.to_table(["id"])


def test_arguments_and_targets_are_checked(lake: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="no column 'nope'"):
        nb.index_files(lake, tmp_path / "e.nbx", key="nope")
    with pytest.raises(InvalidArgumentError, match="kind"):
        nb.index_files(lake, tmp_path / "e.nbx", key="id", kind="tree")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="no Parquet file found"):
        nb.index_files(str(lake / "*.none"), tmp_path / "e.nbx", key="id")
    with pytest.raises(FileNotFoundError):
        nb.index_files([lake / "none.parquet"], tmp_path / "e.nbx", key="id")
    nb.write(events([1]), tmp_path / "own.nimble")
    with pytest.raises(InvalidArgumentError, match="not an index of Parquet files"):
        nb.index_files(lake, tmp_path / "own.nimble", key="id")
    (tmp_path / "text.nbx").write_text("hello")
    with pytest.raises(InvalidArgumentError, match="not replaced"):
        nb.index_files(lake, tmp_path / "text.nbx", key="id")
    pq.write_table(pa.table({"id": ["a"]}), lake / "z.parquet")
    with pytest.raises(InvalidArgumentError, match=r"z\.parquet: the columns differ"):
        nb.index_files(lake, tmp_path / "e.nbx", key="id")
    assert not (tmp_path / "e.nbx").exists()


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        ({"k": pa.array(["c"], pa.large_string()), "v": [3]}, "'k' is large_string, not string;"),
        ({"v": [3], "k": ["c"]}, "the order is v, k;"),
        ({"k": ["c"]}, "'v' is missing;"),
    ],
)
def test_files_of_several_writers_belong_in_a_table(
    tmp_path: Path, other: dict[str, Any], difference: str
) -> None:
    first = pa.table({"k": ["a", "b"], "v": [1, 2]})
    pq.write_table(first, tmp_path / "a.parquet")
    pq.write_table(pa.table(other), tmp_path / "b.parquet")
    with pytest.raises(InvalidArgumentError, match=rf"{difference}.*add_index\(\)"):
        nb.index_files(str(tmp_path / "*.parquet"), tmp_path / "e.nbx", key="k")
    lake = nb.connect(tmp_path / "lake")
    table = lake.create_table("a.b", first.schema, data_format="parquet")
    table.add_files([tmp_path / "a.parquet", tmp_path / "b.parquet"])
    table.add_index(nb.HashIndex("k"))
    assert [index.num_keys for index in table.indexes] == [3]
    expected = {"k": "c", "v": 3 if "v" in other else None}
    assert table.lookup(["c"], on="k").to_pylist() == [expected]


def test_handle_pickles_closes_and_prints(lake: Path, tmp_path: Path) -> None:
    src = nb.index_files(lake, tmp_path / "e.nbx", key="id")
    copy = pickle.loads(pickle.dumps(src))
    assert copy.get(5) == src.get(5)
    assert "sorted index on (id), 5 files, 10,000 rows" in repr(src)
    assert "10,000" in src._repr_html_()
    assert len(src.paths) == 5
    src.close()
    with pytest.raises(InvalidArgumentError, match="closed"):
        src.get(5)
    assert "closed" in repr(src)
    assert "closed" in src._repr_html_()


def test_lookup_reads_pages_and_no_footer(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    table = events(range(60_000))
    pq.write_table(table, path, write_page_index=True, data_page_size=16_384, use_dictionary=False)
    nb.index_files([path], tmp_path / "e.nbx", key="id")
    src = nb.open(tmp_path / "e.nbx")
    src.get(5)
    src.reset_io_stats()
    assert src.get(30_000) == table.slice(30_000, 1).to_pylist()[0]
    stats = src.io_stats
    assert stats.data_reads <= 4 + 2  # a page of each column; blocks of the index
    assert stats.bytes_read < 250_000
    src.reset_io_stats()
    src.get(30_001)
    assert src.io_stats.reads == 0


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_files_that_stay_open_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nimblepy.foreign import source

    monkeypatch.setattr(source, "most_together", lambda: 3)
    folder = tmp_path / "lake"
    folder.mkdir()
    for i in range(12):
        pq.write_table(events([i]), folder / f"f{i:02}.parquet")
    src = nb.index_files(folder, tmp_path / "e.nbx", key="id")

    def open_parquet_files() -> int:
        descriptors = Path("/proc/self/fd").iterdir()
        links = [os.readlink(link) for link in descriptors if os.path.lexists(link)]
        return sum(link.startswith(str(folder)) for link in links)

    for _ in range(2):
        assert src.lookup(list(range(12))).num_rows == 12
        assert open_parquet_files() == 3
    assert src.get(0) == events([0]).to_pylist()[0]


def test_keys_that_share_a_hash_are_told_apart(lake: Path, tmp_path: Path) -> None:
    from nimblepy.foreign.records import key_hashes

    src = nb.index_files(lake, tmp_path / "e.nbx", key="id", kind="hash")
    record = src._current.record

    def hashes(ids: Any) -> list[int]:
        batch = pa.record_batch({"id": pa.array(ids, pa.int64())})
        found: list[int] = key_hashes(batch, record.sort_keys, record.hash_bits).tolist()
        return found

    present = set(hashes(range(10_000)))
    absent = range(10_000, 3_000_000)
    shared = [key for key, hashed in zip(absent, hashes(absent), strict=True) if hashed in present]
    assert shared
    for key in shared[:20]:
        assert src.get(key) is None
    assert not any(src.contains(shared).to_pylist())


@pytest.mark.parametrize("kind", KINDS)
def test_single_rows_by_keys_of_other_types_and_parts(
    lake: Path, tmp_path: Path, kind: Any
) -> None:
    src = nb.index_files(lake, tmp_path / "e.nbx", key=["id", "user"], kind=kind)
    user = str(uuid.UUID(int=7919 * 8 + 1))
    for key in [(8, user), (np.int64(8), user), (8.0, user), {"id": 8, "user": user}]:
        assert src.get(key, ["ts", "id"]) == events([8]).select(["ts", "id"]).to_pylist()[0]
        assert src.get(key, ["cents"]) == {"cents": 24}
    for key in [(8, "x"), (8, None), (None, user), (2**70, user)]:
        assert src.get(key) is None
    with pytest.raises(InvalidArgumentError):
        src.get((8, user, 1))
    keys = [nb.SortKey("id"), nb.SortKey("user")]
    assert src.get((8, user), ["cents"], on=keys) == {"cents": 24}
    if kind == "sorted":
        assert src.get(8, ["cents"], on="id") == {"cents": 24}
        assert src.get(8, ["cents"], on=nb.SortKey("id")) == {"cents": 24}


def test_uuids_of_files_without_an_arrow_schema(tmp_path: Path) -> None:
    # They were 16 bytes: texts of them found nothing.
    duckdb = pytest.importorskip("duckdb")
    path = str(tmp_path / "u.parquet")
    made = "md5(i::varchar)::uuid"
    duckdb.sql(
        f"COPY (SELECT i id, {made} u, {{'w': {made}}} s, [{made}] l FROM range(2000) r(i)) "
        f"TO '{path}'"
    )
    want = pq.read_table(path)
    with nb.index_files(path, tmp_path / "u.nbx", key="u") as index:
        assert index.schema.types == want.schema.types
        assert index.to_table().to_pylist() == want.to_pylist()
        found = want["u"][5].as_py()
        assert index.get(found) == index.get(str(found)) == want.slice(5, 1).to_pylist()[0]
        condition = f"CAST(u AS VARCHAR) LIKE '{str(found)[:6]}%'"
        (count,) = duckdb.sql(f"SELECT count(*) FROM '{path}' WHERE {condition}").fetchone()
        assert index.count_rows(condition) == count > 0
