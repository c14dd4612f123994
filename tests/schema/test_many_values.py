"""Keys, members of IN and row numbers may have every form in which Python has many values."""

from __future__ import annotations

import array
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import nimblepy as nb

pytestmark = pytest.mark.model

# (name, form of the values) -> what is passed
FORMS: dict[str, Callable[[list[int]], Any]] = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "range": lambda v: range(v[0], v[-1] + 1),
    "iterator": iter,
    "generator": lambda v: (x for x in v),
    "map": lambda v: map(int, v),
    "dict keys": lambda v: dict.fromkeys(v).keys(),
    "dict values": lambda v: dict(enumerate(v)).values(),
    "array.array": lambda v: array.array("q", v),
    "memoryview": lambda v: memoryview(array.array("q", v)),
    "numpy": np.array,
    "numpy objects": lambda v: np.array(v, dtype=object),
    "pa.Array": pa.array,
    "pa.ChunkedArray": lambda v: pa.chunked_array([v[:1], v[1:]]),
    "pl.Series": pl.Series,
    "pd.Series": pd.Series,
    "pd.Series with an index": lambda v: pd.Series(v, index=range(7, 7 + len(v))),
    "pd.Index": pd.Index,
    "pd.array": pd.array,
}
ROWS = pa.table({"user": [1, 1, 2, 3, 3, 4], "ts": [1, 2, 1, 1, 2, 1], "v": range(6)})


@pytest.fixture(scope="module", params=["file", "dataset", "table"])
def source(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    path = tmp_path_factory.mktemp(request.param)
    if request.param == "table":
        pytest.importorskip("pyiceberg")
        table = nb.connect(path).create_table("a.t", ROWS.schema, cluster_by=["user", "ts"])
        table.append(ROWS)
        yield table
        return
    for part, begin in enumerate((0, 3)):
        piece = ROWS if request.param == "file" else ROWS.slice(begin, 3)
        nb.write(piece, path / f"{part}.nimble", cluster_by=["user", "ts"])
    opened = nb.open(path / "0.nimble") if request.param == "file" else nb.open_dataset(path)
    with opened as rows:
        yield rows


# A lookup of a series or a set asked for keys of all columns, a list for those of the first.
@pytest.mark.parametrize("form", FORMS)
def test_scalars_are_keys_of_the_first_column(source: Any, form: str) -> None:
    keys = [1, 2, 3]
    assert sorted(source.lookup(FORMS[form](keys))["v"].to_pylist()) == [0, 1, 2, 3, 4]
    assert sorted(source.lookup(FORMS[form](keys), on=["user"])["v"].to_pylist()) == [0, 1, 2, 3, 4]
    assert sorted(source.count(FORMS[form](keys)).to_pylist()) == [1, 2, 2]
    assert source.contains(FORMS[form](keys)).to_pylist() == [True] * 3
    assert source.row_ranges(FORMS[form](keys)).num_rows >= 1
    if form != "tuple":  # which is one key to explain()
        assert source.explain(FORMS[form](keys)).text


@pytest.mark.parametrize("form", FORMS)
def test_members_of_in(source: Any, form: str) -> None:
    for text in ("user IN $x", "user = ANY($x)", "contains($x, user)"):
        found = source.to_table(["v"], text, {"x": FORMS[form]([1, 2])})
        assert found["v"].to_pylist() == [0, 1, 2], text


@pytest.mark.parametrize("form", FORMS)
def test_row_numbers(source: Any, form: str) -> None:
    assert source.take(FORMS[form]([1, 2]))["v"].to_pylist() == [1, 2]


@pytest.mark.parametrize(
    "keys",
    [
        pa.table({"user": [1, 3]}),
        pa.record_batch({"user": [1, 3]}),
        pa.table({"user": [1, 3]}).to_struct_array(),
        pa.array([{"user": 1}, {"user": 3}]),
        pd.DataFrame({"user": [1, 3]}, index=[5, 9]),
        pl.DataFrame({"user": [1, 3]}),
        pl.LazyFrame({"user": [1, 3]}),
        [{"user": 1}, {"user": 3}],
        [(1,), (3,)],
        np.array([(1,), (3,)], dtype=[("user", "i8")]),
    ],
    ids=lambda keys: type(keys).__name__,
)
def test_a_table_of_the_first_columns(source: Any, keys: Any) -> None:
    assert source.lookup(keys)["v"].to_pylist() == [0, 1, 3, 4]
    assert source.count(keys).to_pylist() == [2, 2]


@pytest.mark.parametrize(
    "keys",
    [
        [(1, 2), (3, 1)],
        ((1, 2), (3, 1)),
        {(1, 2): "a", (3, 1): "b"}.keys(),
        [{"ts": 2, "user": 1}, {"user": 3, "ts": 1}],
        np.array([[1, 2], [3, 1]]),
        pa.table({"other": ["x", "y"], "ts": [2, 1], "user": [1, 3]}),
        pd.MultiIndex.from_tuples([(1, 2), (3, 1)]),
        pd.DataFrame({"v": [7, 8]}, index=pd.MultiIndex.from_tuples([(1, 2), (3, 1)],
                                                                   names=["user", "ts"])),
        pa.array([{"user": 1, "ts": 2}, {"user": 3, "ts": 1}]),
        pl.Series([{"user": 1, "ts": 2}, {"user": 3, "ts": 1}]),
    ],
    ids=lambda keys: type(keys).__name__,
)  # fmt: skip
def test_keys_of_all_columns(source: Any, keys: Any) -> None:
    assert source.lookup(keys)["v"].to_pylist() == [1, 3]


def test_keys_that_are_used_up(source: Any) -> None:
    pairs = [(1, 2), (3, 1)]
    reader = pa.table({"ts": [2, 1], "user": [1, 3]}).to_reader()
    for keys in (iter(pairs), zip([1, 3], [2, 1], strict=True), reader):
        assert source.lookup(keys)["v"].to_pylist() == [1, 3]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (7, "expected many keys, got 7; put one key in a list"),
        ("abc", "expected many keys"),
        (b"abc", "expected many keys"),
        ({"user": 1}, "expected many keys"),
        (pa.scalar(1), "expected many keys"),
        (np.int64(1), "expected many keys"),
        ([(1, 2), (3,)], "1 values, but the first key (1, 2) has 2"),
        ([{"user": 1}, {"ts": 1}], "expected the columns user"),
        (pa.table({"ts": [1]}), "expected the columns user, ts, or the first of them"),
        (pa.table({"user": [1], "tss": [1]}), "expected the columns user, ts"),
        ([(1, 2, 3)], "the key has 3 values; the cluster key has 2"),
        (np.zeros((1, 1, 1)), "got the shape (1, 1, 1)"),
        (pd.DataFrame({"user": [1, "x"]}), "cannot be converted to Arrow"),
    ],
    ids=lambda item: type(item).__name__,
)
def test_what_are_no_keys(source: Any, keys: Any, message: str) -> None:
    with pytest.raises(nb.InvalidArgumentError) as caught:
        source.lookup(keys)
    assert message in str(caught.value)


UUIDS = [uuid.UUID(int=i) for i in range(4)]
UUID_FORMS: dict[str, Callable[[], Any]] = {
    "uuid": lambda: UUIDS[:2],
    "text": lambda: [str(u) for u in UUIDS[:2]],
    "bytes": lambda: [u.bytes for u in UUIDS[:2]],
    "mixed": lambda: (UUIDS[0], str(UUIDS[1])),
    "set": lambda: set(UUIDS[:2]),
    "pa uuid": lambda: pa.array(UUIDS[:2], pa.uuid()),
    "pa bytes": lambda: pa.array([u.bytes for u in UUIDS[:2]], pa.binary(16)),
    "pa chunked": lambda: pa.chunked_array([pa.array(UUIDS[:2], pa.uuid())]),
    "numpy": lambda: np.array(UUIDS[:2]),
    "pandas": lambda: pd.Series(UUIDS[:2]),
    # polars exports the addresses of objects, not the objects
    "polars": lambda: pl.Series(UUIDS[:2]),
    "polars text": lambda: pl.Series([str(u) for u in UUIDS[:2]]),
}


@pytest.mark.parametrize("where", ["file", "table"])
@pytest.mark.parametrize("form", UUID_FORMS)
def test_uuids(tmp_path: Path, where: str, form: str) -> None:
    rows: Any = pa.table({"u": pa.array(UUIDS, pa.uuid()), "v": range(4)})
    if where == "file":
        nb.write(rows, tmp_path / "t.nimble", cluster_by="u")
        source: Any = nb.open(tmp_path / "t.nimble")
    else:
        pytest.importorskip("pyiceberg")
        rows = rows.set_column(0, "u", rows["u"].cast(pa.binary(16)))
        source = nb.connect(tmp_path).create_table("a.t", rows, cluster_by="u")
    assert source.lookup(UUID_FORMS[form]())["v"].to_pylist() == [0, 1]
    assert source.to_table(["v"], "u IN $x", {"x": UUID_FORMS[form]()})["v"].to_pylist() == [0, 1]
    found = source.to_table(["v"], "u NOT IN $x", {"x": UUID_FORMS[form]()})
    assert found["v"].to_pylist() == [2, 3]
    one = next(iter(UUIDS[:1])).bytes
    assert source.count_rows("u = $x", {"x": one}) == 1


@pytest.mark.parametrize("value", [1, 1.5, "a", np.int64(1), pa.scalar(1), {"a": 1}])
def test_in_of_one_value_is_refused_in_the_words_of_the_filter(source: Any, value: Any) -> None:
    # The message spoke of CONTAINS, which is what IN is made of.
    with pytest.raises(nb.InvalidArgumentError, match=r"user IN .x: IN takes ") as caught:
        source.to_table(filter="user IN $x", params={"x": value})
    assert "CONTAINS" not in str(caught.value).upper().replace("CONTAINS(", "")


def test_in_of_a_null_and_of_nothing(source: Any) -> None:
    assert source.count_rows("user IN $x", {"x": None}) == 0
    assert source.count_rows("user IN $x", {"x": []}) == 0
    assert source.count_rows("user NOT IN $x", {"x": pl.Series([], dtype=pl.Int64)}) == 6
    assert source.count_rows("user NOT IN $x", {"x": [1, None]}) == 0


def test_keys_of_a_delete_may_be_used_up_once(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    lake = nb.connect(tmp_path)
    table = lake.create_table("a.t", ROWS, primary_key=["user", "ts"])
    table.delete(keys=((u, 1) for u in (1, 2)))
    assert table.to_table(["v"])["v"].to_pylist() == [1, 3, 4, 5]
    table.delete(keys=pd.DataFrame({"user": [3], "ts": [1]}))
    with pytest.raises(nb.InvalidArgumentError, match="expected all key columns"):
        table.delete(keys=pl.Series([4]))
    assert table.num_rows == 3


def test_files_for_keys(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    table = nb.connect(tmp_path).create_table("a.t", ROWS, cluster_by="user")
    for form in FORMS.values():
        assert table.files_for_keys(form([1, 2, 3]))["keys"].to_pylist() == [3]


@pytest.mark.parametrize(
    "kind",
    [
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
        *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        pa.decimal128(9, 2),
    ],
    ids=str,
)
def test_nan_is_no_key_of_numbers_that_are_not_floats(tmp_path: Path, kind: pa.DataType) -> None:
    """It was cast to the least integer or to zero, and found the row with that key."""
    bits = 9 if pa.types.is_decimal(kind) else kind.bit_width
    half = 2 ** (bits - 1)
    least, most = (0, 2 * half - 1) if pa.types.is_unsigned_integer(kind) else (-half, half - 1)
    keys = pa.array(sorted({least, 0, half - 1, most}), pa.decimal128(20, 0)).cast(kind)
    nb.write(pa.table({"k": keys}), tmp_path / "a.nimble", cluster_by="k")
    nan, inf = float("nan"), float("inf")
    beyond = [nan, inf, -inf, 2.0**64, -(2.0**64), 2.0**80]
    with nb.open(tmp_path / "a.nimble") as file:
        assert [file.get(value) for value in beyond] == [None] * 6
        forms = [beyond, np.array(beyond), pa.array(beyond), pa.array(beyond, pa.float32())]
        for form in forms:
            assert file.lookup(form).num_rows == 0
            assert file.count(form).to_pylist() == [0] * 6
