"""Pages put together are the range, and tokens continue behind a key."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import nimblepy as nb


def all_pages(source: Any, **asked: Any) -> pa.Table:
    """The rows of all pages. Every page but the last is full."""
    parts, token = [], None
    while True:
        page = source.page(token=token, **asked)
        assert not page.moved
        parts.append(page.rows)
        if page.next is None:
            return pa.concat_tables(parts)
        assert page.rows.num_rows == asked["limit"]
        token = page.next


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Iterator[nb.Dataset]:
    """Three overlapping files with equal and null keys, descending in the second column."""
    path = tmp_path_factory.mktemp("pages")
    rng = random.Random(5)
    for part in range(3):
        rows = {
            "user": [rng.choice([None, "", "a", "ab", "b"]) for _ in range(60)],
            "score": [rng.choice([None, 0.0, -0.0, 1.5, float("nan")]) for _ in range(60)],
            "n": [part * 100 + i for i in range(60)],
        }
        cluster = ["user", nb.SortKey("score", descending=True)]
        nb.write(pa.table(rows), path / f"{part}.nimble", cluster_by=cluster)
    with nb.open_dataset(path) as source:
        yield source


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("limit", [1, 7, 1000])
def test_pages_together_are_the_whole(dataset: nb.Dataset, limit: int, reverse: bool) -> None:
    how: dict[str, Any] = {"reverse": reverse}
    for columns in (None, ["n"], ["score"], ["n", "user"]):
        got = all_pages(dataset, limit=limit, columns=columns, **how)
        assert got["n" if columns != ["score"] else "score"].to_pylist() != []
        assert repr(got.to_pylist()) == repr(dataset.range(columns=columns, **how).to_pylist())
    for prefix in ("a", ("a", 1.5), nb.starts_with("a"), ("a", 0.0), "zz"):
        got = all_pages(dataset, prefix=prefix, limit=limit, columns=["n"], **how)
        assert got.equals(dataset.prefix(prefix, columns=["n"], **how))
    for inclusive in ("[)", "(]"):
        bounds: dict[str, Any] = {"lower": "", "upper": "b", "inclusive": inclusive}
        got = all_pages(dataset, limit=limit, columns=["n"], **bounds, **how)
        assert got.equals(dataset.range(columns=["n"], **bounds, **how))


def test_rows_without_columns_are_counted(dataset: nb.Dataset) -> None:
    page = dataset.page(limit=7, columns=[])
    assert (page.rows.num_rows, page.rows.num_columns) == (7, 0)


def test_pages_survive_compaction_and_say_so(tmp_path: Path) -> None:
    lake = nb.connect(tmp_path)
    schema = pa.schema([("k", pa.int64()), ("n", pa.int64())])
    table = lake.create_table("a.t", schema, cluster_by=["k"])
    for part in range(4):
        ks = [i % 5 for i in range(20)]
        table.append(pa.table({"k": ks, "n": range(part * 20, part * 20 + 20)}, schema=schema))
    whole = table.range()
    first = table.page(limit=9)
    assert first.next is not None
    table.compact()
    second = table.page(limit=9, token=first.next)
    assert second.moved
    third = table.page(limit=1000, token=second.next)
    assert not third.moved
    assert third.next is None
    parts = [first.rows, second.rows, third.rows]
    # A compaction may change the order of rows with equal keys, but no key is missing.
    assert pa.concat_tables(parts)["k"].equals(whole["k"])
    # Rows of the last key that were deleted do not hide the rows behind them.
    first = table.page(limit=10)
    last = first.rows["k"].to_pylist()[-1]
    table.delete(f"k = {last}")
    rest = table.page(limit=1000, token=first.next).rows
    assert rest["k"].to_pylist() == [k for k in whole["k"].to_pylist() if k > last]


def test_tokens_of_other_requests_and_damaged_ones(dataset: nb.Dataset) -> None:
    token = dataset.page(prefix="a", limit=2).next
    assert token is not None
    for other in ({"prefix": "b"}, {"prefix": "a", "reverse": True}, {"lower": "a"}):
        with pytest.raises(nb.InvalidArgumentError, match="other bounds"):
            dataset.page(token=token, **other)
    damaged = [
        "",
        "=",
        "x",
        "\u00e9",
        token[:-1],
        token + "A",
        token[:5] + "-" + token[6:],
        7,
        b"x",
    ]
    for bad in damaged:
        with pytest.raises(nb.InvalidArgumentError, match="damaged"):
            dataset.page(prefix="a", token=bad)  # type: ignore[arg-type]
    with pytest.raises(nb.InvalidArgumentError, match="limit"):
        dataset.page(limit=0)
    with pytest.raises(nb.InvalidArgumentError, match="not both"):
        dataset.page(prefix="a", lower="a")
