"""Rows of a prefix or range are in index order, also in files of earlier schemas."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import nimblepy as nb

TYPES = {
    "int": (pa.int32(), pa.int64(), lambda n: n),
    "float": (pa.float32(), pa.float64(), lambda n: n / 4),
    "decimal": (pa.decimal128(6, 1), pa.decimal128(12, 1), lambda n: Decimal(n) / 10),
    "text": (pa.string(), None, str),
}


@pytest.mark.parametrize("seed", range(30))
def test_order_after_changes_of_columns(lake: nb.Catalog, seed: int) -> None:
    rng = random.Random(seed)
    narrow, wide, value_of = TYPES[rng.choice(list(TYPES))]
    nested, down = rng.random() < 0.3, rng.random() < 0.3
    order = {"column": "s.t" if nested else "t", "name": "t"}
    inner = pa.struct([("t", narrow)]) if nested else narrow
    schema = pa.schema([("id", pa.int64()), ("g", pa.string()), ("s" if nested else "t", inner)])
    index = nb.SortedIndex(["g", nb.SortKey(order["column"], descending=down)])
    table = lake.create_table(
        "a.t",
        schema.append(pa.field("z", pa.int32())),
        primary_key="id",
        indexes=[index],
    )
    group = "g"
    model: dict[int, tuple[str, int]] = {}

    def rows(ids: list[int]) -> list[dict[str, Any]]:
        made = []
        for i in ids:
            model[i] = rng.choice("abc"), rng.randrange(1000)
            cell = value_of(model[i][1])
            given = {"s": {order["name"]: cell}} if nested else {order["name"]: cell}
            made.append({"id": i, group: model[i][0], **given})
        return made

    for step in range(8):
        table.upsert(rows(rng.sample(range(200), 15)))
        what = rng.choice(["nothing", "add", "rename", "widen", "drop", "delete"])
        with table.alter() as a:
            if what == "add":
                a.add_column(f"n{step}", pa.int32())
            elif what == "rename" and rng.random() < 0.5:
                a.rename_column(group, f"g{step}")
                group = f"g{step}"
            elif what == "rename":
                a.rename_column(order["column"], f"t{step}")
                order["name"] = f"t{step}"
                order["column"] = f"s.t{step}" if nested else f"t{step}"
            elif what == "widen" and wide is not None:
                a.widen(order["column"], wide)
            elif what == "drop" and "z" in table.schema.names:
                a.drop_column("z")
        if what == "delete":
            gone = rng.sample(sorted(model), 3)
            table.delete(keys=gone)
            for i in gone:
                del model[i]
        if rng.random() < 0.3:
            table.optimize()
        handle = rng.choice([table, lake.table("a.t")])
        for text in "abc":
            values = [value_of(n) for g, n in model.values() if g == text]
            wanted = sorted(values, reverse=down)
            limit = rng.choice([None, 1, 3])

            def cells(found: pa.Table) -> list[Any]:
                column = found["s"] if nested else found[order["name"]]
                return [v[order["name"]] if nested else v for v in column.to_pylist()]

            assert cells(handle.prefix(text, on=group, limit=limit)) == wanted[:limit]
            backwards = handle.prefix(text, on=group, limit=limit, reverse=True)
            assert cells(backwards) == wanted[::-1][:limit]
            between = handle.range(text, text, inclusive="[]", on=group)
            assert cells(between) == wanted
            assert cells(handle.page(text, on=group, limit=200).rows) == wanted
