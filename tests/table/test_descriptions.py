"""Documentation of columns, comments of tables, and properties that an alter() removes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import nimblepy as nb

SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), metadata={"doc": "the key", "other": "is not kept"}),
        pa.field("v", pa.string()),
        pa.field("n", pa.struct([pa.field("a", pa.int32(), metadata={"doc": "inside"})])),
    ]
)


def docs(table: nb.Table) -> dict[str, str]:
    fields = [*table.schema, *table.schema.field("n").type]
    return {f.name: f.metadata[b"doc"].decode() for f in fields if f.metadata}


@pytest.fixture
def table(lake: nb.Catalog) -> nb.Table:
    return lake.create_table("a.b", SCHEMA, primary_key="k", comment="All of it.")


def test_docs_of_new_table(table: nb.Table, lake: nb.Catalog) -> None:
    assert docs(table) == docs(lake.table("a.b")) == {"k": "the key", "a": "inside"}
    assert table.iceberg.schema().find_field("n.a").doc == "inside"
    assert table.comment == "All of it."
    assert table.schema.field("k").metadata == {b"doc": b"the key"}


def test_docs_of_table_from_data(lake: nb.Catalog) -> None:
    rows = pa.table({"k": [1], "v": ["a"], "n": [{"a": 1}]}, schema=SCHEMA)
    table = lake.create_table("a.b", rows)
    assert docs(table)["k"] == "the key"
    assert table.to_table().equals(rows)


def test_docs_are_set_and_removed(table: nb.Table, lake: nb.Catalog) -> None:
    with table.alter() as a:
        a.set_doc("k", None).set_doc("v", "free text").set_doc("n.a", "counts")
        a.rename_column("v", "w").set_comment(None)
    for shown in (table, lake.table("a.b")):
        assert docs(shown) == {"w": "free text", "a": "counts"}
        assert shown.comment is None
    assert table.primary_key == ["k"]
    with table.alter() as a:
        a.set_doc("k", "the key").set_doc("w", None).set_doc("n.a", "inside")
        a.set_comment("again")
    assert docs(table) == {"k": "the key", "a": "inside"}
    assert table.comment == "again"


def test_docs_do_not_change_rows(table: nb.Table) -> None:
    table.append(pa.table({"k": [2], "v": ["b"]}))
    first = table.snapshot
    assert first is not None
    with table.alter() as a:
        a.set_doc("v", "free text")
    table.append(pa.table({"k": [1], "v": ["a"]}))
    assert table.to_table(["k", "v"]).to_pylist() == [{"k": 1, "v": "a"}, {"k": 2, "v": "b"}]
    assert docs(table.at(snapshot=first)) == {"k": "the key", "a": "inside"}


@pytest.mark.parametrize("text", ["", " ", 7])
def test_empty_texts_are_refused(table: nb.Table, text: Any) -> None:
    with pytest.raises(nb.InvalidArgumentError, match="expected text, or None"):
        table.alter().set_doc("k", text)
    with pytest.raises(nb.InvalidArgumentError, match="expected text, or None"):
        table.alter().set_comment(text)


def test_properties_are_removed(table: nb.Table, lake: nb.Catalog) -> None:
    with table.alter() as a:
        a.set_properties({"x": "1", "y": "2"})
    with table.alter() as a:
        a.unset_properties(["x", "never set"])
    assert "x" not in table.properties
    assert lake.table("a.b").properties["y"] == "2"
    with pytest.raises(nb.InvalidArgumentError, match="nimblepy itself sets it"):
        table.alter().unset_properties(["nimblepy.data-format"])
    with pytest.raises(nb.InvalidArgumentError, match="nimblepy itself sets it"):
        table.alter().set_properties({"nimblepy.claims.1": "{}"})


def test_a_property_that_changed_meanwhile_is_a_conflict(lake: nb.Catalog, table: nb.Table) -> None:
    other = lake.table("a.b")
    for first, second in (({"x": "1"}, {"x": "2"}), ({"x": "3"}, None), (None, {"x": "4"})):
        with table.alter() as a:  # both blocks read it as set
            a.set_properties({"x": "before"})
        block, winner = table.alter(), other.alter()
        for alter, change in ((block, first), (winner, second)):
            if change is None:
                alter.unset_properties(["x"])
            else:
                alter.set_properties(change)
        with winner:
            pass
        with (
            pytest.raises(nb.ConflictError, match=r"another commit changed .*'x'") as caught,
            block,
        ):
            pass
        assert caught.value.kind == "properties"
        assert lake.table("a.b").properties.get("x") == (second or {}).get("x")


def test_docs_that_changed_meanwhile_are_a_conflict(lake: nb.Catalog, table: nb.Table) -> None:
    block, comment, other_column = table.alter(), table.alter(), table.alter()
    block.set_doc("k", "one")
    comment.set_comment("one")
    other_column.set_doc("v", "text")
    with lake.table("a.b").alter() as a:
        a.set_doc("k", "two").set_comment("two")
    with pytest.raises(nb.ConflictError, match="documentation of column 'k'"), block:
        pass
    with pytest.raises(nb.ConflictError, match="changed property 'comment'"), comment:
        pass
    with other_column:
        pass
    assert docs(lake.table("a.b")) == {"k": "two", "v": "text", "a": "inside"}


def test_the_same_change_twice_is_no_conflict(lake: nb.Catalog, table: nb.Table) -> None:
    block = table.alter().set_properties({"x": "1"}).set_doc("k", "one")
    with lake.table("a.b").alter() as a:
        a.set_properties({"x": "1"}).set_doc("k", "one")
    with block:
        pass
    assert table.properties["x"] == "1"


def test_other_commits_are_no_conflict(lake: nb.Catalog, table: nb.Table) -> None:
    block = table.alter().set_properties({"x": "1"}).set_comment("new")
    other = lake.table("a.b")
    other.append(pa.table({"k": [1]}), batch=("load", 1))
    with other.alter() as a:
        a.set_properties({"y": "2"}).add_column("z", pa.int64())
    with block:
        pass
    assert (table.properties["x"], table.properties["y"], table.comment) == ("1", "2", "new")
