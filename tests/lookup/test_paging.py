"""Pages, samples and arrays: what is left out, how often rows are drawn, and no Python lists."""

from __future__ import annotations

import enum
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nimblepy as nb

pytestmark = pytest.mark.sanitizer

ROWS = 1000
TABLE = pa.table(
    {
        "user": [i // 40 for i in range(ROWS)],
        "at": [i % 40 for i in range(ROWS)],
        "v": [i * 7919 % ROWS for i in range(ROWS)],
    }
)


@pytest.fixture(params=["file", "dataset"])
def rows(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    key: list[str | nb.SortKey] = ["user", "at"]
    if request.param == "file":
        nb.write(TABLE, tmp_path / "f.nimble", cluster_by=key, indexes=[nb.SortedIndex(["v"])])
        return nb.open(tmp_path / "f.nimble")
    for i in range(4):
        part = TABLE.slice(i * 250, 250)
        nb.write(part, tmp_path / f"{i}.nimble", cluster_by=key, indexes=[nb.SortedIndex(["v"])])
    return nb.open_dataset(tmp_path)


def listed(table: pa.Table) -> list[dict[str, Any]]:
    return table.to_pylist()


@pytest.mark.parametrize("reverse", [False, True])
def test_pages_after_a_key_are_all_rows_once(rows: Any, reverse: bool) -> None:
    want = TABLE.to_pylist()[::-1] if reverse else TABLE.to_pylist()
    pages, after = [], None
    while page := listed(rows.range(after=after, limit=333, reverse=reverse)):
        pages += page
        after = {"user": page[-1]["user"], "at": page[-1]["at"]}
    assert pages == want
    inside, after = [], None
    while page := listed(rows.range(3, 5, inclusive="[]", after=None, limit=0)):
        raise AssertionError("a limit of no rows")
    while page := listed(rows.range(upper=5, inclusive="[]", after=after or (3,), limit=7)):
        inside += page
        after = (page[-1]["user"], page[-1]["at"])
    assert inside == [row for row in TABLE.to_pylist() if 3 < row["user"] <= 5]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("offset", "limit"), [(0, 5), (7, 5), (38, 5), (50, None), (3, None)])
def test_an_offset_leaves_rows_out(rows: Any, offset: int, limit: Any, reverse: bool) -> None:
    end = None if limit is None else offset + limit
    whole = listed(rows.prefix(7, reverse=reverse))
    assert listed(rows.prefix(7, offset=offset, limit=limit, reverse=reverse)) == whole[offset:end]
    whole = listed(rows.range((7, 5), (8, 3), reverse=reverse))
    found = rows.range((7, 5), (8, 3), offset=offset, limit=limit, reverse=reverse)
    assert listed(found) == whole[offset:end]
    whole = listed(rows.range(100, 150, on="v", reverse=reverse))
    found = rows.range(100, 150, on="v", offset=offset, limit=limit, reverse=reverse)
    assert listed(found) == whole[offset:end]
    for where in (None, "v < 333", "user = 7"):
        whole = listed(rows.to_table(filter=where)) if where else TABLE.to_pylist()
        scan = rows.scan(filter=where, offset=offset, limit=limit, batch_rows=11)
        assert listed(scan.to_table()) == whole[offset:end]
        assert scan.count() == len(whole[offset:end])
        assert [row for batch in scan for row in batch.to_pylist()] == whole[offset:end]


@pytest.mark.parametrize("bad", [-1, 1.5, None, "1", True])
def test_bad_offsets_are_refused(rows: Any, bad: Any) -> None:
    for ask in (rows.prefix, rows.range, lambda _, offset: rows.scan(offset=offset)):
        with pytest.raises(nb.InvalidArgumentError, match="offset"):
            ask(1, offset=bad)


def test_after_and_the_bound_in_its_place_are_refused(rows: Any) -> None:
    with pytest.raises(nb.InvalidArgumentError, match="lower or after"):
        rows.range(1, after=2)
    with pytest.raises(nb.InvalidArgumentError, match="upper or after"):
        rows.range(upper=1, after=2, reverse=True)


def test_bounds_and_prefixes_may_be_dicts(rows: Any) -> None:
    assert rows.prefix({"user": 7}).equals(rows.prefix(7))
    assert rows.prefix({"at": 3, "user": 7}).equals(rows.prefix((7, 3)))
    assert rows.range({"user": 7}, {"user": 8, "at": 1}).equals(rows.range(7, (8, 1)))
    for bad in ({"at": 3}, {}, {"user": 1, "at": 2, "v": 3}, {"nobody": 1}):
        with pytest.raises(nb.InvalidArgumentError, match="first columns of the key"):
            rows.prefix(bad)


def test_keys_of_too_few_values_are_refused_with_the_way_out(tmp_path: Path) -> None:
    table = pa.table({"a": ["x", "x", "y"], "b": [1, 2, 1]})
    nb.write(table, tmp_path / "t.nimble", cluster_by=["a", "b"])
    with nb.open(tmp_path / "t.nimble") as file:
        with pytest.raises(nb.InvalidArgumentError, match="name it in on="):
            file.get("x")
        with pytest.raises(nb.InvalidArgumentError, match="name them in on="):
            file.lookup([("x",)], on=["a", "b"])
        assert file.lookup(["x"]).num_rows == file.lookup(["x"], on="a").num_rows == 2
        assert file.get("y", on="a") == {"a": "y", "b": 1}


def test_nulls_of_a_prefix_match_where_asked(tmp_path: Path) -> None:
    table = pa.table({"a": [1, 1, 1, None, None], "b": ["x", None, None, "y", None]})
    nb.write(table, tmp_path / "f.nimble", cluster_by=["a", "b"])
    with nb.open(tmp_path / "f.nimble") as file:
        assert file.prefix((1, None)).num_rows == 0
        assert file.prefix((1, None), null_equals=True).num_rows == 2
        assert file.prefix((None,), null_equals=True).num_rows == 2
        assert file.prefix((None, "y"), null_equals=True).num_rows == 1
        ranges = file.row_ranges(prefix=(1, None), null_equals=True).to_pylist()
        assert ranges == [{"probe_row": 0, "begin": 1, "end": 3}]


def test_samples_are_rows_of_the_table_each_as_likely(rows: Any) -> None:
    assert rows.sample(1).equals(TABLE)
    first = rows.sample(0.1, seed=3)
    assert first.equals(rows.sample(0.1, seed=3))
    assert not first.equals(rows.sample(0.1, seed=4))
    drawn = np.zeros(ROWS)
    for seed in range(400):
        found = rows.sample(0.1, seed=seed, columns=["user", "at"])
        numbers = np.array(found["user"]) * 40 + np.array(found["at"])
        assert (np.diff(numbers) > 0).all()
        drawn[numbers] += 1
    # 40 times each, with a standard deviation of 6
    assert abs(drawn.mean() - 40) < 1.5
    assert 40 - 6 * 6 < drawn.min() < drawn.max() < 40 + 6 * 6
    assert rows.sample(0).equals(TABLE.slice(0, 0))
    for bad in (-1, 1.5, "x", None):
        with pytest.raises(nb.InvalidArgumentError, match="fraction"):
            rows.sample(bad)


def test_scans_of_a_file_pickle(tmp_path: Path) -> None:
    nb.write(TABLE, tmp_path / "f.nimble", cluster_by="user")
    scan = nb.open(tmp_path / "f.nimble").scan(["v"], filter="user = 7 AND v > 300", limit=9)
    assert pickle.loads(pickle.dumps(scan)).to_table().equals(scan.to_table())


def test_handles_are_streams_of_their_rows(rows: Any) -> None:
    assert pa.table(rows).equals(TABLE)


def test_vectors_come_as_arrays(tmp_path: Path) -> None:
    vectors = np.arange(40, dtype=np.float32).reshape(10, 4)
    tensors = np.arange(60, dtype=np.int16).reshape(10, 6)
    inner = pa.FixedSizeListArray.from_arrays(pa.array(tensors.reshape(-1)), 3)
    table = pa.table(
        {
            "id": range(10),
            "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), 4),
            "m": pa.FixedSizeListArray.from_arrays(inner, 2),
            "l": [list(range(i)) for i in range(10)],
            "s": [f"s{i}" for i in range(10)],
            "c": pa.array(["a", "b"] * 5).dictionary_encode(),
            "n": [None] * 10,
        }
    )
    nb.write(table, tmp_path / "f.nimble", cluster_by="id")
    with nb.open(tmp_path / "f.nimble") as file:
        row = file.get(3, as_numpy=True)
        assert row["id"] == 3
        assert row["v"].dtype == np.float32
        assert row["v"].tolist() == vectors[3].tolist()
        assert row["m"].shape == (2, 3)
        assert row["l"].tolist() == [0, 1, 2]
        assert (row["s"], row["c"], row["n"]) == ("s3", "b", None)
        assert file.get(99, as_numpy=True, default="none") == "none"


class Colour(enum.Enum):
    RED = "red"


class Text(str, enum.Enum):  # noqa: UP042  # the old way has another str()
    RED = "red"


def test_enums_stand_for_their_values(tmp_path: Path) -> None:
    nb.write(pa.table({"k": ["blue", "red"]}), tmp_path / "f.nimble", cluster_by="k")
    with nb.open(tmp_path / "f.nimble") as file:
        for key in (Colour.RED, Text.RED, np.array("red")):
            assert file.get(key) == {"k": "red"}
            assert file.lookup([key]).num_rows == 1
            assert file.range(key).num_rows == 1
            assert file.prefix(key).num_rows == 1


@pytest.mark.parametrize("key", [0.1, np.float64(0.1), np.float32(1.1)])
def test_a_float_beside_a_decimal_is_refused(tmp_path: Path, key: Any) -> None:
    """0.1 as a double is no decimal of two digits, though pyarrow would cast it to one."""
    values = pa.array([Decimal("0.10"), Decimal("0.50"), Decimal("1.10")], pa.decimal128(9, 2))
    nb.write(pa.table({"k": values}), tmp_path / "f.nimble", cluster_by="k")
    with nb.open(tmp_path / "f.nimble") as file:
        assert file.lookup(np.array([0.5])).num_rows == 1
        for ask in (lambda: file.lookup([key]), lambda: file.count(np.array([key]))):
            with pytest.raises(nb.InvalidArgumentError, match="cannot be converted to column"):
                ask()
        with pytest.raises(nb.InvalidArgumentError, match="cannot be converted to column"):
            file.prefix(key)
