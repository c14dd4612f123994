"""A dataset of many files answers as the oracle does, however its rows are spread over files."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import key_cases
import numpy as np
import oracle
import pyarrow as pa
import pytest
from answers import as_bound
from dataset_files import make_dataset
from hypothesis import given
from hypothesis import strategies as st
from key_cases import composite_cases

import nimblepy as nb

pytestmark = pytest.mark.model


def cut(table: pa.Table, keys: list[oracle.Key], orders: Any, n: int) -> list[pa.Table]:
    """Pieces of a table in key order; equal keys stay together."""
    places = sorted({len(keys) * i // n for i in range(n + 1)})
    inner = [
        place
        for place in places[1:-1]
        if oracle.compare_keys(keys[place - 1], keys[place], orders) != 0
    ]
    edges = [0, *inner, len(keys)]
    return [table.slice(a, b - a) for a, b in itertools.pairwise(edges)]


@given(case=composite_cases(), disjoint=st.booleans(), data=st.data())
def test_dataset_lookups_ranges_and_scans_are_the_oracle(
    tmp_path_factory: Any, case: Any, disjoint: bool, data: st.DataObject
) -> None:
    table, names, orders, keys = case
    stored = key_cases.in_file_order(table, names, orders)
    stored_keys = oracle.table_keys(stored, names)
    n = data.draw(st.integers(1, 5))
    if disjoint:
        tables = cut(stored, stored_keys, orders, n)
    else:
        tables = [
            pa.concat_tables([stored.slice(i, 1) for i in range(p, stored.num_rows, n)])
            if p < stored.num_rows
            else stored.slice(0, 0)
            for p in range(n)
        ]
    directory = tmp_path_factory.mktemp("dataset")
    ds = make_dataset(directory, tables, key_cases.sort_keys(names, orders))
    assert ds.num_rows == stored.num_rows
    assert sorted(ds.to_table().column("row").to_pylist()) == list(range(stored.num_rows))

    width = data.draw(st.integers(1, len(names)))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    probes: list[oracle.Key] = [key[:width] for key in stored_keys[::4]]
    probes += [
        tuple(k.pool[rng.integers(len(k.pool))] if rng.random() > 0.1 else None for k in keys)[
            :width
        ]
        for _ in range(12)
    ]
    null_equals = data.draw(st.booleans())
    check_lookup(ds, stored, stored_keys, probes, names[:width], keys, null_equals)
    check_ranges(ds, stored, stored_keys, probes, orders, keys)


def check_lookup(
    ds: nb.Dataset,
    stored: pa.Table,
    stored_keys: list[oracle.Key],
    probes: list[oracle.Key],
    on: list[str],
    keys: Any,
    null_equals: bool,
) -> None:
    batch = key_cases.probe_table(on, keys, probes)
    pairs = oracle.lookup(stored_keys, probes, null_equals=null_equals)
    rows = stored.column("row").to_pylist()
    got = ds.lookup(batch, on=on, probe_row="probe", null_equals=null_equals)
    got.validate(full=True)
    found = list(zip(got.column("probe").to_pylist(), got.column("row").to_pylist(), strict=True))
    assert [probe for probe, _ in found] == [probe for probe, _ in pairs]
    assert sorted(found) == sorted((probe, rows[row]) for probe, row in pairs)
    counts = oracle.count(stored_keys, probes, null_equals=null_equals)
    assert ds.count(batch, on=on, null_equals=null_equals).to_pylist() == counts
    assert ds.contains(batch, on=on, null_equals=null_equals).to_pylist() == [n > 0 for n in counts]
    joined = ds.index_join(batch, on=on, how="left", columns=["row"], null_equals=null_equals)
    assert joined.num_rows == sum(max(1, n) for n in counts)


def check_ranges(
    ds: nb.Dataset,
    stored: pa.Table,
    stored_keys: list[oracle.Key],
    probes: list[oracle.Key],
    orders: Any,
    keys: Any,
) -> None:
    rows = stored.column("row").to_pylist()
    place = {row: i for i, row in enumerate(rows)}

    def in_order(got: pa.Table) -> list[int]:
        """Rows, equal keys in stored order: over several files their order is not fixed."""
        found = [place[row] for row in got.column("row").to_pylist()]
        for a, b in itertools.pairwise(found):
            assert oracle.compare_keys(stored_keys[a], stored_keys[b], orders) <= 0
        return sorted(found)

    for low, high in zip(probes[:6], probes[6:12], strict=False):
        bounds = [
            tuple(v if v.is_valid else None for v in as_bound(keys, bound)) for bound in (low, high)
        ]
        for inclusive in ("[)", "(]"):
            want = oracle.range_rows(stored_keys, low, high, inclusive, orders)
            got = ds.range(*bounds, inclusive=inclusive)
            assert in_order(got) == sorted(want)
            back = ds.range(*bounds, inclusive=inclusive, reverse=True, limit=3)
            last = [stored_keys[row] for row in reversed(want)][:3]
            found = [stored_keys[place[row]] for row in back.column("row").to_pylist()]
            assert len(found) == len(last)
            for a, b in zip(found, last, strict=True):
                assert oracle.compare_keys(a, b, orders) == 0
        if None not in low:
            assert in_order(ds.prefix(bounds[0])) == oracle.prefix_rows(stored_keys, low)


@pytest.mark.parametrize("prefix", ["", "a", "ab", "shared/", "z", "\U0010ffff"])
def test_dataset_string_prefix_over_files(tmp_path: Path, prefix: str) -> None:
    values = sorted(key_cases.TEXT_POOL, key=str.encode)
    tables = [pa.table({"k": values[i : i + 3]}) for i in range(0, len(values), 3)]
    ds = make_dataset(tmp_path, tables, "k")
    want = [value for value in values if value.startswith(prefix)]
    assert ds.prefix(nb.starts_with(prefix)).column("k").to_pylist() == want


def test_dataset_between_join_over_files_is_that_of_one_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    for descending in (False, True):
        key = ["k", nb.SortKey("ts", descending=descending)]
        table = pa.table(
            {"k": rng.integers(0, 20, 500), "ts": rng.integers(0, 50, 500), "v": rng.random(500)}
        )
        one, many = tmp_path / f"one{descending}.nimble", tmp_path / f"many{descending}"
        nb.write(table, one, cluster_by=key)
        stored = nb.open(one).to_table()
        edges = [0, 100, 101, 250, 499, 500]
        tables = [stored.slice(a, b - a) for a, b in itertools.pairwise(edges)]
        ds = make_dataset(many, tables, key)
        low = rng.integers(-3, 50, 300)
        probe = pa.table(
            {"k": rng.integers(-1, 21, 300), "lo": low, "hi": low + rng.integers(-2, 9, 300)}
        )
        for how in ("inner", "left", "semi", "anti"):
            arguments: dict[str, Any] = {
                "on": "k", "how": how, "between": {"ts": ("lo", "hi")}, "condition": "v > 0.2",
            }  # fmt: skip
            want = nb.index_join(probe, nb.open(one), **arguments)
            assert nb.index_join(probe, ds, **arguments).equals(want)
