"""The compiled reader of nearest rows against the general path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nimblepy as nb

WIDTH, ROWS = 512, 2_400  # enough numbers for lists


def _rows(ids: Any) -> pa.Table:
    ids = np.asarray(ids)
    x = np.random.default_rng(4).normal(size=(6_000, WIDTH)).astype(np.float32)[ids]
    return pa.table(
        {
            "id": ids,
            "place": pa.array(
                [{"lat": float(i), "name": None if i % 5 else f"place {i}"} for i in ids.tolist()],
                pa.struct([("lat", pa.float64()), ("name", pa.string())]),
            ),
            "text": [None if i % 7 == 0 else "x" * (i % 40) for i in ids.tolist()],
            "tags": pa.array([[str(i)] * (i % 3) for i in ids.tolist()], pa.list_(pa.string())),
            "v": pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), WIDTH),
        }
    ).replace_schema_metadata({"owner": "us"})


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("sources")
    index = nb.VectorIndex("v", metric="cosine")
    nb.write(_rows(range(ROWS)), folder / "a.nimble", cluster_by=["id"], indexes=[index])
    (folder / "many").mkdir()
    for i in range(3):
        part = _rows(range(i * 900, i * 900 + 900 - i))
        nb.write(part, folder / "many" / f"{i}.nimble", cluster_by=["id"], indexes=[index])
    schema = _rows([1]).schema
    table = nb.connect(folder / "lake").create_table(
        "a.b", schema, primary_key=["id"], indexes=[index]
    )
    table.append(_rows(range(ROWS)))
    table.append(_rows(range(ROWS, ROWS + 300)))
    table.delete("id % 9 = 4")
    return {
        "file": nb.open(folder / "a.nimble"),
        "read": nb.open(folder / "a.nimble", mmap=False),
        "dataset": nb.open_dataset(folder / "many"),
        "table": table,
        "snapshot": table.at(snapshot=table.snapshot),
    }


@pytest.mark.parametrize("name", ["file", "read", "dataset", "table", "snapshot"])
@pytest.mark.parametrize(
    "columns",
    [None, [], ["id"], ("tags", "id"), ["place.name", "text"], ["place", "v"], [("place", "lat")]],
    ids=str,
)
def test_reader_returns_the_table_of_the_general_path(
    sources: dict[str, Any], name: str, columns: Any
) -> None:
    source = sources[name]
    query = np.random.default_rng(8).normal(size=WIDTH).astype(np.float32)
    for k, exact in ((1, False), (10, False), (10, True), (10_000, False)):
        # The reader leaves a k that is not an int to the general path.
        wanted = source.nearest(query, np.int64(k), columns=columns, exact=exact)
        assert wanted.num_rows == min(k, source.num_rows)
        forms = (query, query.astype(np.float64), query.tolist(), np.repeat(query, 2)[::2])
        for form in forms[: 1 if k > 10 else 4]:
            hits = source.nearest(form, k, columns=columns, exact=exact)
            assert hits.schema.equals(wanted.schema, check_metadata=True)
            assert hits.equals(wanted)
    prepared = source._nearest_finders[None, None, _key(columns), False]
    assert (prepared is not None) == (columns != [])


@pytest.mark.parametrize("name", ["file", "read", "dataset", "table", "snapshot"])
@pytest.mark.parametrize(
    "arguments",
    [
        {"prefix": 40},
        {"prefix": -1},
        {"lower": 700},
        {"upper": (90,)},
        {"lower": 300, "upper": 2_100},
        {"lower": 9, "upper": 3},
        {"filter": "id % 3 = 1"},
        {"filter": "id < 900"},
        {"filter": "place.lat > 100 and text is not null"},
        {"filter": "id > $low", "params": {"low": 2_390}},
        {"filter": "id < 0"},
        {"filter": "text like '%xx' or id = 4"},
        {"filter": "id % 2 = 0", "lower": 100},
    ],
    ids=str,
)
def test_reader_finds_the_rows_of_the_general_path(
    sources: dict[str, Any], name: str, arguments: dict[str, Any]
) -> None:
    source = sources[name]
    query = np.random.default_rng(9).normal(size=WIDTH).astype(np.float32)
    for k in (1, 20, 5_000):
        for exact in (False, True):
            wanted = source.nearest(query, np.int64(k), exact=exact, **arguments)
            hits = source.nearest(query, k, exact=exact, **arguments)
            assert hits.schema.equals(wanted.schema, check_metadata=True)
            assert hits.equals(wanted)


def test_prefix_and_filter_together_or_without_a_key(tmp_path: Path) -> None:
    nb.write(_rows(range(50)), tmp_path / "a.nimble")
    with nb.open(tmp_path / "a.nimble") as file:
        query = [1.0] * WIDTH
        assert file.nearest(query, 50, filter="id < 7").num_rows == 7
        with pytest.raises(nb.IndexUnavailableError):
            file.nearest(query, 3, prefix=4)
        with pytest.raises(nb.InvalidArgumentError):
            file.nearest(query, 3, params={"low": 1})
        with pytest.raises(nb.InvalidArgumentError):
            file.nearest(query, 3, filter="nothing = 3")


def _key(columns: Any) -> Any:
    return tuple(columns) if isinstance(columns, list) else columns


def test_general_path_answers_other_forms_of_arguments(sources: dict[str, Any]) -> None:
    file = sources["file"]
    query = np.arange(1, WIDTH + 1)
    wanted = file.nearest(query.astype(np.float64), 3, columns=["id"])
    for form in (query, query.tolist(), pa.array(query), query.astype(np.float16)):
        assert file.nearest(form, 3, columns=["id"]).equals(wanted)
    assert file.nearest(query.astype(">f8"), 3, columns=["id"]).equals(wanted)
    both = file.nearest(np.stack([query, query]), 3, columns=["id"])
    assert both["id"].to_pylist() == 2 * wanted["id"].to_pylist()
    everything = file.nearest(query.tolist(), 3, columns=["id"], recall=1)
    assert everything.equals(file.nearest(query, 3, columns=["id"], exact=True))


@pytest.mark.parametrize("name", ["file", "dataset", "table"])
def test_invalid_arguments_are_refused_after_a_valid_search(
    sources: dict[str, Any], name: str
) -> None:
    source = sources[name]
    good = [1.0] * WIDTH
    source.nearest(good, 2, columns=["id"])
    for query, arguments, message in (
        ([1.0] * (WIDTH - 1), {}, "vectors of 512 numbers"),
        ([float("nan")] * WIDTH, {}, "finite"),
        (np.full(WIDTH, np.inf, np.float32), {}, "finite"),
        ([0.0] * WIDTH, {}, "only zeros"),
        (good, {"k": 0}, "k must be"),
        (good, {"k": True}, "k must be"),
        (good, {"k": 10_001}, "k must be"),
        (good, {"recall": 0.0}, "recall must be"),
        (good, {"recall": float("nan")}, "recall must be"),
        (good, {"metric": "l2"}, "the vector index has 'cosine'"),
        (good, {"metric": "L2"}, "metric must be"),
        (good, {"columns": ["id", "nothing"]}, "nothing"),
        (good, {"columns": [["id"]]}, "expected a list of names"),
        (good, {"on": "id"}, "column 'id' has the type int64; .*fixed-size lists"),
        (good, {"on": "nope"}, "there is no column 'nope'"),
        (None, {}, "query: got None"),
        (np.full(WIDTH, 1j), {}, "complex"),
        ([1j] * WIDTH, {}, "complex"),
        (np.full((2, WIDTH), 1 + 0j), {"exact": True}, "complex"),
    ):
        with pytest.raises(nb.InvalidArgumentError, match=message):
            source.nearest(query, **{"columns": ["id"], **arguments})


def test_reader_follows_the_versions_of_a_table(tmp_path: Path) -> None:
    table = nb.connect(tmp_path).create_table("a.b", _rows([1]).schema, primary_key=["id"])
    table.append(_rows(range(50)))
    other = nb.connect(tmp_path).table("a.b")
    query = _rows([70])["v"][0].values.to_numpy()
    assert table.nearest(query, 1, columns=["id"])["id"].to_pylist() != [70]
    assert other.nearest(query, 1, columns=["id"])["_distance"][0].as_py() > 1
    table.append(_rows([70]))
    assert table.nearest(query, 1, columns=["id"]).to_pylist() == [{"id": 70, "_distance": 0.0}]
    assert other.nearest(query, 1, columns=["id"])["id"].to_pylist() != [70]
    other.refresh()
    assert other.nearest(query, 1, columns=["id"])["id"].to_pylist() == [70]
    table.delete("id = 70")
    assert table.nearest(query, 1, columns=["id"])["id"].to_pylist() != [70]


def test_closed_file_is_refused(tmp_path: Path) -> None:
    nb.write(_rows(range(50)), tmp_path / "a.nimble", cluster_by=["id"])
    file = nb.open(tmp_path / "a.nimble")
    hits = file.nearest([1.0] * WIDTH, 3)
    file.close()
    with pytest.raises(nb.InvalidArgumentError, match="closed"):
        file.nearest([1.0] * WIDTH, 3)
    assert hits.num_rows == 3
    assert hits.validate(full=True) is None


def test_result_column_must_not_have_the_name_of_the_distance(tmp_path: Path) -> None:
    rows = _rows(range(50)).rename_columns(["id", "place", "_distance", "tags", "v"])
    nb.write(rows, tmp_path / "a.nimble", cluster_by=["id"])
    with nb.open(tmp_path / "a.nimble") as file:
        for _ in range(2):
            with pytest.raises(nb.InvalidArgumentError, match="'_distance'"):
                file.nearest([1.0] * WIDTH, 3)
        assert file.nearest([1.0] * WIDTH, 3, columns=["id"]).num_rows == 3
