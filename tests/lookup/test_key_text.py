"""Keys given as text, keys shorter than the cluster key, and messages that show the way out."""

from __future__ import annotations

import datetime as dt
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import nimblepy as nb

pytestmark = pytest.mark.sanitizer

UTC = dt.UTC


def write(path: Path, cluster_by: Any = None, **columns: Any) -> nb.File:
    nb.write(pa.table(columns), path / "t.nimble", cluster_by=cluster_by)
    return nb.open(path / "t.nimble")


TIMES = [
    (pa.date32(), dt.date(2024, 2, 29), "2024-02-29"),
    (pa.timestamp("us"), dt.datetime(2024, 2, 29, 12, 30), "2024-02-29 12:30"),
    (pa.timestamp("ns"), dt.datetime(2024, 2, 29, 12, 30), "2024-02-29T12:30:00.000000000"),
    (pa.timestamp("s", "UTC"), dt.datetime(2024, 2, 29, 12, tzinfo=UTC), "2024-02-29 13:00+01:00"),
    # without an offset in the zone of the column, as in filters
    (pa.timestamp("s", "Asia/Tokyo"), dt.datetime(2024, 2, 29, 12, tzinfo=UTC), "2024-02-29 21:00"),
    (pa.time32("s"), dt.time(12, 30), "12:30:00"),
]


@pytest.mark.parametrize(("kind", "value", "text"), TIMES)
def test_text_spells_times(tmp_path: Path, kind: Any, value: Any, text: str) -> None:
    file = write(tmp_path, "t", t=pa.array([None, value], kind), id=[0, 1])
    assert file.get(text)["id"] == 1
    assert file.lookup([text, value, None])["id"].to_pylist() == [1, 1]
    assert file.lookup(pa.array([text, None]))["id"].to_pylist() == [1]
    assert file.contains([text]).to_pylist() == [True]
    assert file.range(text, text, inclusive="[]").num_rows == file.prefix(text).num_rows == 1
    assert file.count_rows(f"t = '{text}'") == 1
    for bad in ("2024-02-31", "yesterday"):
        with pytest.raises(nb.InvalidArgumentError, match=f"key '{bad}' does not fit column 't'"):
            file.lookup([bad])


def test_text_spells_uuids(tmp_path: Path) -> None:
    one = uuid.UUID("12345678-0000-0000-0000-000000000005")
    file = write(tmp_path, "k", k=pa.array([one.bytes], pa.uuid()))
    for text in (str(one), one.hex, f"{{{one}}}"):
        assert file.get(text) == file.get(one) == {"k": one}
        assert file.count([text]).to_pylist() == file.count(pa.array([text])).to_pylist() == [1]
    assert file.prefix(str(one)).num_rows == 1
    with pytest.raises(nb.InvalidArgumentError, match="'x' is not a UUID"):
        file.get("x")
    file = write(tmp_path, "k", k=pa.array([one.bytes], pa.binary(16)))
    assert file.get(str(one)) == file.get(one) == {"k": one.bytes}  # as tables have them
    for text in ("x", one.hex):
        with pytest.raises(nb.InvalidArgumentError):
            file.get(text)


def test_text_for_a_number_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path, "k", k=[5])
    for ask in (file.get, file.prefix, lambda key: file.lookup([key])):
        with pytest.raises(nb.InvalidArgumentError, match="which is text"):
            ask("5")


def test_keys_of_one_value_stand_for_all_that_begin_with_it(tmp_path: Path) -> None:
    file = write(tmp_path, ["a", "b"], a=["x", "x", "y"], b=[1, 2, 3])
    for keys in (["x"], [("x",)], [{"a": "x"}], pa.array(["x"]), pa.chunked_array([["x"]])):
        assert file.lookup(keys)["b"].to_pylist() == [1, 2], keys
        assert file.count(keys).to_pylist() == [2]
    # of a single key a column may have been forgotten
    with pytest.raises(nb.InvalidArgumentError, match="the key has 2 columns"):
        file.get("x")


def test_messages_show_the_way_out(tmp_path: Path) -> None:
    columns = {"k": ["UA"], "t": pa.array([dt.datetime(2024, 1, 1)])}
    file = write(tmp_path, "t", **columns)
    with pytest.raises(nb.InvalidArgumentError, match="single quotes: 'UA'"):
        file.count_rows('k = "UA"')
    with pytest.raises(nb.InvalidArgumentError, match=r"SortKey\('k', descending=True\)"):
        nb.write(pa.table(columns), tmp_path / "u.nimble", cluster_by="k desc")
    with pytest.raises(nb.InvalidArgumentError, match="does not; remove it from the value"):
        file.get(dt.datetime(2024, 1, 1, tzinfo=dt.UTC))


def test_summaries_speak_of_indexes_that_there_are(tmp_path: Path) -> None:
    table = pa.table({"k": [1]})
    assert "secondary" not in str(nb.write(table, tmp_path / "t.nimble", cluster_by="k"))


def test_integers_that_pyarrow_cannot_compare_are_sqls(tmp_path: Path) -> None:
    file = write(tmp_path, i=pa.array([1, 2]), u=pa.array([1, 2**64 - 1], pa.uint64()))
    assert file.count_rows("i < u") == 1
    with pytest.raises(nb.InvalidArgumentError, match="SQL text compares numbers by value"):
        file.count_rows(pc.field("i") < pc.field("u"))


def test_words_of_sql_are_columns_in_quotes(tmp_path: Path) -> None:
    file = write(tmp_path, when=[1, 2], order=[3, 4])
    assert file.count_rows('"when" > 1 AND "order" = 4') == 1
    for word in ("when", "order"):
        with pytest.raises(nb.InvalidArgumentError, match=f'this name is written "{word}"'):
            file.count_rows(f"{word} > 1")


def test_samples_are_of_rows_that_pass(tmp_path: Path) -> None:
    file = write(tmp_path, k=list(range(10_000)))
    drawn = file.sample(0.1, seed=7, filter="k % 2 = $odd", params={"odd": 1})
    values = drawn["k"].to_pylist()
    assert 400 < len(values) < 600
    assert all(value % 2 for value in values)
    assert values == sorted(set(values))
    again = file.sample(0.1, seed=7, filter="k % 2 = 1", columns=["k"])
    assert again.equals(drawn)
    assert file.sample(1.0, filter="k < 10").num_rows == 10
    nb.write(pa.table({"v": pa.array(["a", "b"], pa.string_view())}), tmp_path / "views.nimble")
    views = nb.open(tmp_path / "views.nimble").sample(1.0, filter="v LIKE 'b'")
    assert views["v"].to_pylist() == ["b"]
    with pytest.raises(nb.InvalidArgumentError, match="params"):
        file.sample(0.5, params={"a": 1})


def test_changes_of_tables_take_parameters(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    rows = pa.table({"k": [1, 2, 3, 4]})
    table = nb.connect(tmp_path / "lake").create_table("a.b", rows.schema)
    table.append(rows)
    assert table.delete("k = $k", params={"k": 2}).rows_deleted == 1
    new = rows.slice(0, 1)
    assert table.overwrite(new, filter="k IN ?", params=[[3, 4]]).rows_deleted == 2
    assert sorted(table.to_table()["k"].to_pylist()) == [1, 1]
    with pytest.raises(nb.InvalidArgumentError, match="a datetime with a zone"):
        table.at(time="2024-01-01")  # type: ignore[arg-type]
