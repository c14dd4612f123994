"""Names in the conditions and values of merges, with and without their side."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import nimblepy as nb

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64()), ("kept", pa.string())])


def _table(lake: nb.Catalog, rows: Any = None) -> nb.Table:
    data = rows or {"id": [1, 2, 3], "v": [10, 20, 30], "kept": ["a", "b", "c"]}
    return lake.create_table("a.t", pa.table(data), primary_key="id")


def _rows(table: nb.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_table().to_pylist())


CHANGES = {"id": [1, 2, 9], "v": [11, 21, 91], "op": ["u", "d", "i"]}


# "unknown column 'op'; there are 'source', 'source.op', ..." of a condition that had one meaning.
def test_names_that_one_side_has(lake: nb.Catalog) -> None:
    table = _table(lake)
    (
        table.merge(CHANGES)
        .when_matched(delete=True, condition="op = 'd'")
        .when_matched(update={"kept": "kept || OP", "v": "source.v + target.v"})
        .when_not_matched(condition="op = 'i' AND v > 90")
        .when_not_matched_by_source(condition="v = 30 AND kept = 'c'")
        .execute()
    )
    assert _rows(table) == [(1, 21, "au"), (9, 91, None)]


def test_each_clause_has_its_sides(lake: nb.Catalog) -> None:
    table = _table(lake)
    table.merge(CHANGES).when_not_matched(insert={"id": "id", "v": "v + 1"}).execute()
    assert (9, 92, None) in _rows(table)
    for clause in (
        lambda m: m.when_not_matched(condition="kept = 'a'"),
        lambda m: m.when_not_matched(condition="target.v = 1"),
        lambda m: m.when_not_matched(insert={"v": "kept"}),
        lambda m: m.when_not_matched_by_source(condition="op = 'd'"),
        lambda m: m.when_not_matched_by_source(condition="source.v = 1"),
    ):
        with pytest.raises(nb.InvalidArgumentError, match="unknown column"):
            clause(table.merge(CHANGES)).execute()


@pytest.mark.parametrize("name", ["v", "V", '"v"', "id"])
def test_names_of_both_sides_are_ambiguous(lake: nb.Catalog, name: str) -> None:
    table = _table(lake)
    plain = name.strip('"').lower()
    for clause in (
        lambda m: m.when_matched(delete=True, condition=f"{name} > 1"),
        lambda m: m.when_matched(update={"v": f"{name} + 1"}),
    ):
        with pytest.raises(nb.InvalidArgumentError) as caught:
            clause(table.merge(CHANGES)).execute()
        said = str(caught.value)
        assert "is ambiguous: source and target have it" in said
        assert f"write source.{plain} or target.{plain}" in said
    assert _rows(table) == [(1, 10, "a"), (2, 20, "b"), (3, 30, "c")]


def test_dots_quotes_and_case(lake: nb.Catalog) -> None:
    table = _table(lake, {"id": [1, 2], "a.b": [1, 2], 'Say "x"': ["p", "q"], "UP": [5, 6]})
    changes = {"id": [1, 2], "c.d": [7, 8], "other": [1, 2]}
    (
        table.merge(changes)
        .when_matched(
            update={"a.b": '"a.b" + "c.d"', "UP": "up + 1", 'Say "x"': '"Say ""x""" || \'!\''},
            condition='a.b = 1 AND "UP" = 5 AND c.d = 7 AND "Say ""x""" = \'p\' AND OTHER = 1',
        )
        .execute()
    )
    assert _rows(table) == [(1, 8, "p!", 6), (2, 2, "q", 6)]


def test_structs_and_their_fields(lake: nb.Catalog) -> None:
    place = pa.struct([("lat", pa.int64()), ("name", pa.string())])
    rows = pa.table({"id": [1, 2], "loc": pa.array([{"lat": 1, "name": "x"}, None], place)})
    table = lake.create_table("a.t", rows, primary_key="id")
    table.merge({"id": [1, 2], "q": [1, 1]}).when_matched(
        delete=True, condition="loc.lat = q AND loc.name = 'x'"
    ).execute()
    assert table.to_table(["id"])["id"].to_pylist() == [2]


def test_columns_called_source_and_target(lake: nb.Catalog) -> None:
    inner = pa.struct([("v", pa.int64()), ("only", pa.int64())])
    rows = pa.table(
        {
            "id": [1, 2],
            "v": [10, 20],
            "source": pa.array([{"v": 1, "only": 5}, {"v": 2, "only": 6}], inner),
            "target": ["x", "y"],
        }
    )
    table = lake.create_table("a.t", rows, primary_key="id")
    changes = {"id": [1, 2], "v": [100, 200]}
    # The sides come first, whatever columns there are.
    table.merge(changes).when_matched(
        update={"v": "source.v + target.v + target.source.v"},
        condition="source.v = 100 AND target.target = 'x' AND target.source.only = 5",
    ).execute()
    assert table.to_table(["v"])["v"].to_pylist() in ([111, 20], [20, 111])
    with pytest.raises(nb.InvalidArgumentError, match=r"unknown column 'source\.only'"):
        table.merge(changes).when_matched(delete=True, condition="source.only = 5").execute()


def test_renamed_columns(lake: nb.Catalog) -> None:
    table = _table(lake)
    with table.alter() as change:
        change.rename_column("v", "amount")
    changes = {"key": [1, 2], "v": [5, 6]}
    table.merge(changes, on={"key": "id"}).when_matched(
        update={"amount": "amount + v"}, condition="key = 1 AND id = 1"
    ).when_not_matched_by_source(condition="amount = 30").execute()
    assert _rows(table) == [(1, 15, "a"), (2, 20, "b")]


def test_a_column_of_both_sides_in_another_case(lake: nb.Catalog) -> None:
    table = _table(lake)
    with pytest.raises(nb.InvalidArgumentError, match=r"write source\.V or target\.v"):
        table.merge({"id": [1], "V": [5]}).when_matched(delete=True, condition="v = 5").execute()


def test_unknown_names_have_hints(lake: nb.Catalog, tmp_path: Any) -> None:
    table = _table(lake)
    with pytest.raises(nb.InvalidArgumentError, match=r"'source\.op'"):
        table.merge(CHANGES).when_matched(delete=True, condition="oq = 'd'").execute()
    nb.write(pa.table({"loc": [{"lat": 1}], "z": [1]}), tmp_path / "f.nimble")
    with (
        nb.open(tmp_path / "f.nimble") as file,
        pytest.raises(nb.InvalidArgumentError, match=r"'lat'; did you mean 'loc\.lat'"),
    ):
        file.to_table(filter="lat = 1")
