"""Random nested evolution against a model that keeps values by field id.

Each history runs with files read as they are where that is right, and with all files mapped by
field id; both must give the rows of the model.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

import nimblepy as nb
from nimblepy.table.reading import members


@dataclass(eq=False)
class Node:
    """A field of the model; values are kept by its number, which never changes."""

    number: int
    name: str
    kind: str
    children: list[Node] = field(default_factory=list)
    default: Any = None

    @property
    def type(self) -> pa.DataType:
        if self.kind == "struct":
            return pa.struct([(child.name, child.type) for child in self.children])
        if self.kind == "list":
            return pa.list_(self.children[0].type)
        if self.kind == "map":
            return pa.map_(pa.string(), self.children[0].type)
        return {"int": pa.int32(), "long": pa.int64(), "text": pa.string()}[self.kind]


class Model:
    """A schema that changes, and the rows of a table by the numbers of its fields."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._numbers = count(1)
        self.rows: dict[int, dict[int, Any]] = {}
        self.columns = [self._leaf("k", "long"), self._leaf("v", "int")]
        self.columns += [self._node(name, kind) for name, kind in (
            ("s", "struct"), ("l", "list"), ("m", "map")
        )]  # fmt: skip

    def _leaf(self, name: str, kind: str) -> Node:
        return Node(next(self._numbers), name, kind)

    def _node(self, name: str, kind: str, depth: int = 0) -> Node:
        made = self._leaf(name, kind)
        if kind == "struct":
            names = self._rng.sample("xyzw", k=self._rng.randrange(2, 4))
            made.children = [self._node(n, self._kind(depth + 1), depth + 1) for n in names]
        elif kind in ("list", "map"):
            part = "element" if kind == "list" else "value"
            made.children = [self._node(part, "struct", depth + 1)]
        return made

    def _kind(self, depth: int) -> str:
        nested = ["struct", "list"] if depth < 3 else []
        return self._rng.choice(["int", "int", "text", *nested])

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(column.name, column.type) for column in self.columns])

    # ------------------------------------------------------------------ rows

    def new_row(self, key: int) -> tuple[dict[str, Any], dict[int, Any]]:
        """A row by names, as it is written, and by numbers."""
        named, numbered = {}, {}
        for column in self.columns:
            value, kept = (key, key) if column.name == "k" else self._value(column)
            named[column.name], numbered[column.number] = value, kept
        return named, numbered

    def _value(self, node: Node) -> tuple[Any, Any]:
        rng = self._rng
        if rng.random() < 0.15:
            return None, None
        if node.kind == "struct":
            pairs = [(child, *self._value(child)) for child in node.children]
            return {c.name: v for c, v, _ in pairs}, {c.number: k for c, _, k in pairs}
        if node.kind == "list":
            both = [self._value(node.children[0]) for _ in range(rng.randrange(3))]
            return [v for v, _ in both], [k for _, k in both]
        if node.kind == "map":
            keyed = [(key, *self._value(node.children[0])) for key in "ab"[: rng.randrange(3)]]
            return [(key, v) for key, v, _ in keyed], [(key, k) for key, _, k in keyed]
        if node.kind == "text":
            value = rng.choice(["p", "q", "r"])
            return value, value
        value = rng.randrange(4)
        return value, value

    def expected(self) -> dict[int, dict[str, Any]]:
        """All rows by key, as they are read now."""
        return {
            key: {
                c.name: self._read(c, row[c.number]) if c.number in row else c.default
                for c in self.columns
            }
            for key, row in self.rows.items()
        }

    def _read(self, node: Node, kept: Any) -> Any:
        if kept is None:
            return None
        if node.kind == "struct":
            return {c.name: self._read(c, kept.get(c.number)) for c in node.children}
        if node.kind == "list":
            return [self._read(node.children[0], item) for item in kept]
        if node.kind == "map":
            return [(key, self._read(node.children[0], item)) for key, item in kept]
        return kept

    # ------------------------------------------------------------------ changes of the schema

    def structs(self) -> Iterator[tuple[tuple[str, ...], list[Node]]]:
        """Paths of structs and their fields; the first is the table's row."""

        def inside(path: tuple[str, ...], node: Node) -> Iterator[Any]:
            if node.kind == "struct":
                yield path, node.children
            for child in node.children:
                yield from inside((*path, child.name), child)

        yield (), self.columns
        for column in self.columns:
            yield from inside((column.name,), column)

    def evolve(self, lake: nb.Catalog, table: nb.Table) -> None:
        """A few changes of one struct, in one step or several."""
        path, fields = self._rng.choice(list(self.structs()))
        pinned = {"k", "v"} if not path else set()
        for change in self._rng.sample(["swap", "drop and add", "move", "add", "widen"], k=2):
            free = [child for child in fields if child.name not in pinned]
            if change == "swap" and len(free) > 1:
                one, other = self._rng.sample(free, k=2)
                steps = [(one.name, "free"), (other.name, one.name), ("free", other.name)]
                for old, new in steps:
                    self._apply(lake, table, "rename_column", (*path, old), new)
                one.name, other.name = other.name, one.name
            elif change == "drop and add" and len(free) > 1:
                gone = self._rng.choice(free)
                self._apply(lake, table, "delete_column", (*path, gone.name))
                fields.remove(gone)
                self._add(lake, table, path, fields, gone.name)
            elif change == "move" and len(free) > 1:
                moved = self._rng.choice(free)
                self._apply(lake, table, "move_first", (*path, moved.name))
                fields.remove(moved)
                fields.insert(0, moved)
            elif change == "add":
                self._add(lake, table, path, fields, f"n{next(self._numbers)}")
            elif change == "widen":
                for child in free:
                    if child.kind == "int":
                        self._apply(lake, table, "update_column", (*path, child.name))
                        child.kind = "long"
                        break

    def _add(self, lake: Any, table: Any, path: Any, fields: list[Node], name: str) -> None:
        added = self._leaf(name, "int")
        if not path and self._rng.random() < 0.5:
            added.default = 7
            with table.alter() as a:
                a.add_column(name, pa.int32(), default=7)
        else:
            self._apply(lake, table, "add_column", (*path, name))
        fields.append(added)

    def _apply(self, lake: nb.Catalog, table: nb.Table, how: str, path: Any, *more: Any) -> None:
        """By the library, which also reaches into lists and maps."""
        from pyiceberg.types import IntegerType, LongType

        with lake.iceberg.load_table(("a", "b")).update_schema(
            allow_incompatible_changes=True
        ) as update:
            name = ".".join(path)
            if how == "add_column":
                # Of a list or map, a new field's parent is the list or map itself.
                parent = path[:-1]
                if parent and parent[-1] in ("element", "value"):
                    parent = parent[:-1]
                update.add_column((*parent, path[-1]), IntegerType())
            elif how == "update_column":
                update.update_column(path, LongType())
            else:
                getattr(update, how)(name if how == "rename_column" else path, *more)
        table.refresh()


def _check(table: nb.Table, model: Model, rng: random.Random) -> None:
    expected = model.expected()
    found = {row["k"]: row for row in table.to_table().to_pylist()}
    assert found == expected
    for key in rng.sample(range(40), k=5):
        assert table.get(key) == expected.get(key)
    keys = rng.sample(range(40), k=10)
    assert {row["k"]: row for row in table.lookup(keys).to_pylist()} == {
        key: expected[key] for key in keys if key in expected
    }
    for path, fields in model.structs():
        if any(name in ("element", "value") for name in path):
            continue
        for child in fields:
            if child.kind not in ("int", "long"):
                continue
            name = ".".join((*path, child.name))
            value = rng.randrange(4)
            passing = {k for k, row in expected.items() if _at(row, (*path, child.name)) == value}
            text = f"{name} = {value}"
            assert set(table.to_table(["k"], filter=text)["k"].to_pylist()) == passing, text
            null = {k for k, row in expected.items() if _at(row, (*path, child.name)) is None}
            assert table.count_rows(f"{name} IS NULL") == len(null), name


def _at(row: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if row is None:
            return None
        row = row[name]
    return row


_SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 40))]


@pytest.mark.parametrize("mapped", [False, True], ids=["as it is", "mapped"])
@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
@pytest.mark.parametrize("seed", _SEEDS)
def test_nested_fields_are_read_by_id(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch, data_format: Any, seed: int, mapped: bool
) -> None:
    if mapped:
        monkeypatch.setattr(members, "fits_as_it_is", lambda have, wanted: False)
    rng = random.Random(seed)
    model = Model(rng)
    table = lake.create_table("a.b", model.schema, primary_key="k", data_format=data_format)
    start = None
    for _ in range(7):
        rows = [model.new_row(key) for key in rng.sample(range(40), k=6)]
        data = pa.Table.from_pylist([named for named, _ in rows], model.schema)
        change = rng.randrange(4)
        if change == 0:
            table.merge(data, on="k").when_matched(update=True).when_not_matched(
                insert=True
            ).execute()
        else:
            table.upsert(data)
        number = model.columns[[c.name for c in model.columns].index("k")].number
        model.rows |= {numbered[number]: numbered for _, numbered in rows}
        start = start or table.snapshot
        model.evolve(lake, table)
        _check(table, model, rng)
        if rng.random() < 0.3:
            table.compact(where_needed=False)
            _check(table, model, rng)
        if rng.random() < 0.3:
            value = rng.randrange(4)
            table.delete(f"v = {value}")
            column = next(c for c in model.columns if c.name == "v").number
            model.rows = {k: r for k, r in model.rows.items() if r[column] != value}
            _check(table, model, rng)
    found: dict[int, Any] = {}
    for row in table.changes(None).read_all().to_pylist():
        change, _ = row.pop("_change"), row.pop("_snapshot")
        if change in ("delete", "update_before"):
            assert found.pop(row["k"]) == row
        else:
            found[row["k"]] = row
    assert found == model.expected()
