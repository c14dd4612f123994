"""Facts of a snapshot, against the rows that it has."""

from __future__ import annotations

import datetime as dt
import math
import random
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import nimblepy as nb

SCHEMA = pa.schema(
    {
        "k": pa.int64(),
        "i": pa.int32(),
        "f": pa.float64(),
        "s": pa.string(),
        "d": pa.date32(),
        "m": pa.decimal128(9, 2),
        "b": pa.bool_(),
        "n": pa.struct({"a": pa.int32()}),
        "l": pa.list_(pa.int32()),
    }
)


def some_rows(choices: random.Random, keys: range) -> pa.Table:
    def maybe(value: Any) -> Any:
        return None if choices.random() < 0.2 else value

    return pa.Table.from_pylist(
        [
            {
                "k": key,
                "i": maybe(choices.randrange(-50, 50)),
                "f": maybe(choices.choice([math.nan, -0.0, 0.0, choices.random()])),
                "s": maybe(choices.choice(["", "a", "ä" * 20, "z" * 17])),
                "d": maybe(dt.date(2024, 1, choices.randrange(1, 28))),
                "m": maybe(Decimal(choices.randrange(-999, 999)).scaleb(-2)),
                "b": maybe(choices.random() < 0.5),
                "n": maybe({"a": maybe(choices.randrange(9))}),
                "l": [1],
            }
            for key in keys
        ],
        SCHEMA,
    )


def check(table: nb.Table) -> None:
    facts, rows = table.facts(), table.to_table().to_pylist()
    assert facts.rows == len(rows)
    for name, column in facts.columns.items():
        outer, _, inner = name.partition(".")
        values = [row[outer] for row in rows]
        if inner:
            values = [None if value is None else value[inner] for value in values]
        nulls = values.count(None)
        assert column.nulls is not None
        assert column.least_nulls <= nulls <= column.nulls
        assert not column.nulls_exact or nulls == column.nulls
        present = [v for v in values if v is not None and v == v]
        if present:
            least, most = min(present), max(present)
            assert column.lower is None or column.lower <= least, name
            assert column.upper is None or column.upper >= most, name
            assert column.seen_lower is None or column.seen_lower >= least, name
            assert column.seen_upper is None or column.seen_upper <= most, name
            if column.bounds_exact:
                assert (column.lower, column.upper) == (least, most), name
        else:
            assert column.seen_lower is None
            assert column.seen_upper is None


@pytest.mark.model
@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
@pytest.mark.parametrize("seed", range(3))
def test_facts_hold(lake: nb.Catalog, seed: int, data_format: Any) -> None:
    choices = random.Random(seed)
    table = lake.create_table("a.b", SCHEMA, primary_key="k", data_format=data_format)
    check(table)
    for step in range(6):
        match choices.randrange(5):
            case 0 | 1:
                table.append(some_rows(choices, range(100 * step, 100 * step + 20)))
            case 2:
                table.upsert(some_rows(choices, range(0, 300, 7)))
            case 3:
                table.delete(f"k % {choices.randrange(2, 5)} = 0")
            case 4:
                table.compact(where_needed=False)
        check(table)


def test_facts_are_exact_without_deletes(lake: nb.Catalog) -> None:
    rows = pa.table({"k": [1, 2, 3], "v": ["b", None, "a"], "e": pa.nulls(3, pa.int32())})
    table = lake.create_table("a.b", rows, cluster_by="k")
    table.analyze()
    facts = table.facts()
    key, value, empty = facts["k"], facts["v"], facts["e"]
    assert (key.lower, key.upper, key.bounds_exact, key.nulls, key.nulls_exact) == (
        *(1, 3, True),
        *(0, True),
    )
    assert (value.lower, value.upper, value.nulls, value.distinct) == ("a", "b", 1, 2)
    assert value.distinct_exact
    assert value.distinct_snapshot == table.snapshot
    assert (empty.nulls, empty.lower, empty.upper) == (3, None, None)
    assert (facts.name, facts.snapshot, facts.ids["k"]) == ("a.b", table.snapshot, 1)
    assert "2 different values" in repr(facts)
    table.append(rows)
    assert not table.facts()["v"].distinct_exact


def test_files_from_before_a_column_have_its_default(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", pa.table({"k": [1, 2]}), cluster_by="k")
    with table.alter() as a:
        a.add_column("x", pa.int64()).add_column("y", pa.int64(), default=7)
    table.append(pa.table({"k": [3], "x": [5], "y": [9]}))
    facts = table.facts()
    assert (facts["x"].nulls, facts["x"].lower, facts["x"].upper) == (2, 5, 5)
    assert (facts["y"].nulls, facts["y"].lower, facts["y"].upper) == (0, 7, 9)


def test_only_commits_of_rows_change_the_time(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", pa.schema({"k": pa.int64()}), cluster_by="k")
    assert table.facts().last_changed is None
    table.append(pa.table({"k": [1]}))
    table.append(pa.table({"k": [2]}))
    facts = table.facts()
    assert facts.last_changed is not None
    assert facts.last_changed_exact
    assert facts.last_changed.tzinfo is dt.UTC
    table.compact(where_needed=False)
    table.analyze()
    with table.alter() as a:
        a.set_comment("no rows")
    assert table.facts().last_changed == facts.last_changed
    table.expire(keep=1)
    later = table.facts()
    assert not later.last_changed_exact
    assert later.last_changed is not None
    assert later.last_changed >= facts.last_changed


@pytest.mark.cost
@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
def test_facts_open_no_data_file(lake: nb.Catalog, data_format: Any) -> None:
    table = lake.create_table("a.b", SCHEMA, primary_key="k", data_format=data_format)
    for first in range(3):
        table.append(some_rows(random.Random(1), range(first * 10, first * 10 + 10)))
    table.analyze()
    expected = repr(table.facts())
    shutil.rmtree(Path(table.location.removeprefix("file://")) / "data")
    assert repr(lake.table("a.b").facts()) == expected
