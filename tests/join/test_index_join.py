"""index_join is the nested loop: every how, key type, null, duplicate, condition and layout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import key_cases
import numpy as np
import oracle
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from answers import clustered, pick
from hypothesis import given
from hypothesis import strategies as st
from key_cases import KEY_TYPES, LAYOUTS, KeyType, composite_cases

import nimblepy as nb
from nimblepy.join.plan import plan_join
from nimblepy.join.run import join_batches

pytestmark = pytest.mark.model

Store = Callable[..., Any]
HOWS = ("inner", "left", "semi", "anti")
Pair = tuple[int, int | None]


def expected(probe: pa.Table, build: pa.Table, joined: list[Pair], how: str) -> pa.Table:
    """The joined rows themselves, by slices."""
    left = pick(probe, [p for p, _ in joined])
    if how in ("semi", "anti"):
        return left
    for name in build.column_names:
        column = build.column(name).combine_chunks()
        null = pa.nulls(1, column.type)
        pieces = [null if b is None else column.slice(b, 1) for _, b in joined]
        left = left.append_column(name, pa.concat_arrays(pieces) if pieces else column.slice(0, 0))
    return left


def check_join(
    file: nb.File, stored: pa.Table, probe: pa.Table, names: list[str], *, null_equals: bool
) -> None:
    """`probe` has the key columns under the file's names, and a column `p`."""
    build_keys = oracle.table_keys(stored, names)
    keys = oracle.table_keys(probe, names)
    rest = [name for name in stored.column_names if name not in names]
    for how in HOWS:
        joined = oracle.join(keys, build_keys, how, null_equals=null_equals)
        got = nb.index_join(probe, file, on=names, how=how, null_equals=null_equals)
        got.validate(full=True)
        want = expected(probe, stored.select(rest), joined, how)
        assert got.schema.names == want.schema.names
        assert got.schema.types == want.schema.types
        assert got.column("p").to_pylist() == want.column("p").to_pylist(), how
        for name in rest if how in ("inner", "left") else ():
            assert got.column(name).to_pylist() == want.column(name).to_pylist(), how


def probes_of(names: list[str], keys: list[KeyType], values: list[oracle.Key]) -> pa.Table:
    table = key_cases.probe_table(names, keys, values)
    return table.append_column("p", pa.array(range(table.num_rows), pa.int64()))


@pytest.mark.parametrize("null_equals", [False, True])
@pytest.mark.parametrize("key", KEY_TYPES, ids=lambda k: k.name)
def test_join_on_every_key_type_is_the_nested_loop(
    path: str, key: KeyType, null_equals: bool
) -> None:
    table = key_cases.one_column_case(key, 40, seed=1)
    file, stored = clustered(path, table, ["k"], [oracle.ASCENDING], stripe_rows=7)
    values: list[oracle.Key] = [(value,) for value in [*key.pool, None, *key.pool[::-2]]]
    check_join(file, stored, probes_of(["k"], [key], values), ["k"], null_equals=null_equals)


@given(case=composite_cases(), layout=st.sampled_from(LAYOUTS), data=st.data())
def test_join_on_composite_and_prefix_keys_is_the_nested_loop(
    tmp_path_factory: Any, case: Any, layout: dict[str, Any], data: st.DataObject
) -> None:
    table, names, orders, keys = case
    path = str(tmp_path_factory.mktemp("join") / "t.nimble")
    file, stored = clustered(path, table, names, orders, **layout)
    width = data.draw(st.integers(1, len(names)))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    present = oracle.table_keys(stored, names)
    values: list[oracle.Key] = [key[:width] for key in present[::3]]
    values += [
        tuple(k.pool[rng.integers(len(k.pool))] if rng.random() > 0.1 else None for k in keys)[
            :width
        ]
        for _ in range(20)
    ]
    rng.shuffle(values)
    check_join(
        file,
        stored,
        probes_of(names[:width], keys[:width], values),
        names[:width],
        null_equals=data.draw(st.booleans()),
    )


@given(data=st.data())
def test_join_with_condition_and_any_piece_size_is_the_nested_loop(
    tmp_path_factory: Any, data: st.DataObject
) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    keys = data.draw(st.sampled_from([1, 3, 30]))
    n, m = data.draw(st.integers(0, 60)), data.draw(st.integers(0, 60))
    build = pa.table(
        {
            "k": pa.array(np.sort(rng.integers(0, keys, n))),
            "x": pa.array(rng.integers(0, 10, n), mask=rng.random(n) < 0.2),
            "row": pa.array(range(n), pa.int64()),
        }
    )
    probe = pa.table(
        {
            "k": pa.array(rng.integers(0, keys + 1, m), mask=rng.random(m) < 0.1),
            "x": pa.array(rng.integers(0, 10, m), mask=rng.random(m) < 0.2),
            "p": pa.array(range(m), pa.int64()),
        }
    )
    path = str(tmp_path_factory.mktemp("join") / "t.nimble")
    nb.write(build, path, cluster_by="k", presorted=True)
    file = nb.open(path)
    px, bx = probe.column("x").to_pylist(), build.column("x").to_pylist()

    def passes(p: int, b: int) -> bool | None:
        return None if px[p] is None or bx[b] is None else bx[b] > px[p]

    for how in HOWS:
        joined = oracle.join(
            oracle.table_keys(probe, ["k"]), oracle.table_keys(build, ["k"]), how, passes=passes
        )
        plan = plan_join(
            probe.schema,
            file,
            on="k",
            how=how,
            columns=["row"],
            condition=pc.field("x_right") > pc.field("x"),
            suffix="_right",
            null_equals=False,
            between=None,
        )
        rows = data.draw(st.sampled_from([1, 2, 7, 1000]))
        batches = list(join_batches(plan, file._current, probe.to_batches(13), output_rows=rows))
        assert how in ("semi", "anti") or all(batch.num_rows <= rows for batch in batches)
        got = pa.Table.from_batches(batches, schema=plan.schema)
        assert got.column("p").to_pylist() == [p for p, _ in joined]
        if how in ("inner", "left"):
            assert got.schema.names == ["k", "x", "p", "row"]
            assert got.column("row").to_pylist() == [b for _, b in joined]


@pytest.mark.parametrize("extra", [{}, {"cluster_bloom_bits_per_key": 10.0}, {"key_chunk_rows": 2}])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("place", ["last", "middle", "first", "elsewhere", "no index"])
def test_join_between_is_the_nested_loop(
    store: Store, place: str, descending: bool, extra: dict[str, Any]
) -> None:
    rng = np.random.default_rng(5)
    n, m = 120, 60
    build = pa.table(
        {
            "k": pa.array(rng.integers(0, 5, n)),
            "ts": pa.array(rng.integers(0, 30, n), mask=rng.random(n) < 0.1),
            "z": pa.array(rng.integers(0, 3, n)),
            "row": pa.array(range(n), pa.int64()),
        }
    )
    lower = rng.integers(-3, 33, m)
    probe = pa.table(
        {
            "k": pa.array(rng.integers(-1, 6, m), mask=rng.random(m) < 0.1),
            "lo": pa.array(lower, mask=rng.random(m) < 0.1),
            "hi": pa.array(lower + rng.integers(-2, 9, m), mask=rng.random(m) < 0.1),
            "p": pa.array(range(m), pa.int64()),
        }
    )
    ts = nb.SortKey("ts", descending=descending, nulls_first=descending)
    on: list[str] = [] if place == "first" else ["k"]
    cluster_by: list[Any] = {
        "last": ["k", ts],
        "middle": ["k", ts, "z"],
        "first": [ts, "k"],
        "elsewhere": ["k", "z", ts],
        "no index": ["k"],
    }[place]
    file = store(build, cluster_by=cluster_by, options=nb.WriteOptions(stripe_rows=16, **extra))
    stored = file.to_table()
    lo, hi = probe.column("lo").to_pylist(), probe.column("hi").to_pylist()
    at = stored.column("ts").to_pylist()

    def passes(p: int, b: int) -> bool | None:
        return None not in (lo[p], hi[p], at[b]) and lo[p] <= at[b] <= hi[p]

    between = {"ts": ("lo", "hi")}
    plan = plan_join(
        probe.schema, file, on=on, how="inner", columns=None, condition=None, suffix="_r",
        null_equals=False, between=between,
    )  # fmt: skip
    assert (plan.indexed_between is not None) == (place in ("last", "middle", "first"))
    for how in HOWS:
        keys = [(k,) for k in probe.column("k").to_pylist()] if on else [()] * m
        build_keys = [(k,) for k in stored.column("k").to_pylist()] if on else [()] * n
        joined = oracle.join(keys, build_keys, how, passes=passes)
        got = nb.index_join(probe, file, on=on, how=how, between=between, columns=["row"])
        assert got.column("p").to_pylist() == [p for p, _ in joined]
        if how in ("inner", "left"):
            rows = stored.column("row").to_pylist()
            want = [None if b is None else rows[b] for _, b in joined]
            assert got.column("row").to_pylist() == want
