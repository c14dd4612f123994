"""index_join is the nested loop for every mix of what a join may have: key types, composite and
prefix keys, how, nulls, duplicates, ranges, conditions, one file or many, any index and layout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import key_cases
import numpy as np
import oracle
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from dataset_files import make_dataset
from hypothesis import given, settings
from hypothesis import strategies as st
from key_cases import KEY_TYPES, LAYOUTS, KeyType, composite_cases

import nimblepy as nb

pytestmark = pytest.mark.model

HOWS = ("inner", "left", "semi", "anti")
# What a joined row must satisfy besides: as text or expression, and as the oracle sees it. The
# build side's `x` meets the probe's `x`, so it is called x_right.
CONDITIONS: dict[str, tuple[Any, Callable[[Any, Any], bool | None]]] = {
    "none": (None, lambda p, b: True),
    "text": ("x_right > x", lambda p, b: None if None in (p, b) else b > p),
    "or": (
        "x_right = x OR x IS NULL",
        lambda p, b: p is None or (None if b is None else b == p),
    ),
    "expression": (
        pc.field("x_right") != pc.field("x"),
        lambda p, b: None if None in (p, b) else b != p,
    ),
    "probe only": ("x < 5", lambda p, b: None if p is None else p < 5),
    "file only": ("x_right < 5", lambda p, b: None if b is None else b < 5),
    "never": ("x_right < 0", lambda p, b: None if b is None else False),
}


@dataclass(frozen=True)
class Case:
    """Both sides of a join.

    Attributes:
        on: key columns of the equality; the probe has them under their own names.
        between: the column that the probe's `lo` and `hi` enclose.
        secondary: the columns of `on` have an index of their own and are no prefix of the key.
    """

    build: pa.Table
    probe: pa.Table
    names: list[str]
    orders: list[oracle.Order]
    on: list[str]
    between: str | None
    secondary: str | None


def small(rng: np.random.Generator, n: int) -> pa.Array:
    return pa.array(rng.integers(0, 10, n), mask=rng.random(n) < 0.2)


def drawn(
    rng: np.random.Generator, present: list[oracle.Key], keys: list[KeyType], at: int, n: int
) -> list[Any]:
    """Values for a probe column: half of them from the file, some null, the rest around those."""
    pool = keys[at].pool
    out = []
    for _ in range(n):
        kind = rng.random()
        if kind < 0.1:
            out.append(None)
        elif kind < 0.6 and present:
            out.append(present[rng.integers(len(present))][at])
        else:
            out.append(pool[rng.integers(len(pool))])
    return out


@pytest.mark.parametrize("key", KEY_TYPES, ids=lambda k: k.name)
def test_range_that_no_index_answers_is_the_nested_loop(path: str, key: KeyType) -> None:
    rng = np.random.default_rng(7)
    build = key_cases.one_column_case(key, 40, seed=1).append_column("x", small(rng, 40))
    build = build.append_column("one", pa.array([1] * 40))
    bounds = {"one": pa.array([1] * 30), "p": pa.array(range(30)), "x": small(rng, 30)}
    for bound in ("lo", "hi"):
        values = [None if rng.random() < 0.1 else v for v in rng.choice(len(key.pool), 30)]
        bounds[bound] = key_cases.array_of(
            key.type, [None if v is None else key.pool[v] for v in values]
        )
    nb.write(build, path, cluster_by="one")
    case = Case(build, pa.table(bounds), ["one"], [oracle.ASCENDING], ["one"], "k", None)
    unordered = pa.types.is_decimal(key.type) and key.type.scale < 0  # pyarrow cannot compare these
    for how in HOWS:
        join = partial(nb.index_join, case.probe, nb.open(path), on="one", how=how)
        if unordered:
            with pytest.raises(nb.InvalidArgumentError, match="between: cannot compare"):
                join(between={"k": ("lo", "hi")}, suffix="_r")
            continue
        got = join(between={"k": ("lo", "hi")}, suffix="_r")
        rows = got.column("row").to_pylist() if how in ("inner", "left") else [None] * len(got)
        found = list(zip(got.column("p").to_pylist(), rows, strict=True))
        assert found == nested_loop(case, how, False, "none")


@st.composite
def cases(draw: st.DrawFn) -> Case:
    table, names, orders, keys = draw(composite_cases(max_rows=60))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    build = table.append_column("x", small(rng, table.num_rows))
    secondary = draw(st.sampled_from([None, None, "hash", "sorted"]))
    if secondary is not None and len(names) > 1:
        on = names[draw(st.integers(1, len(names) - 1)) :]
    else:
        secondary = None
        on = names[: draw(st.integers(1, len(names)))]
    others = [name for name in names if name not in on]
    between = draw(st.sampled_from([None, *others]))
    n = draw(st.integers(0, 50))
    present = oracle.table_keys(build, names)
    # Whole keys now and then, so that composite keys meet.
    picked = [present[rng.integers(len(present))] if present else None for _ in range(n)]
    columns: dict[str, Any] = {}
    for name in on:
        at = names.index(name)
        values = drawn(rng, present, keys, at, n)
        whole = [p[at] if p is not None and rng.random() < 0.7 else v
                 for p, v in zip(picked, values, strict=True)]  # fmt: skip
        columns[name] = key_cases.array_of(keys[at].type, whole)
    if between is not None:
        at = names.index(between)
        for bound in ("lo", "hi"):
            columns[bound] = key_cases.array_of(keys[at].type, drawn(rng, present, keys, at, n))
    columns["x"] = small(rng, n)
    columns["p"] = pa.array(range(n), pa.int64())
    return Case(build, pa.table(columns), names, orders, on, between, secondary)


def written(case: Case, data: st.DataObject, folder: Any) -> Any:
    """The build side as a file, or as a dataset of some."""
    layout = dict(data.draw(st.sampled_from(LAYOUTS)))
    indexes: list[Any] = []
    if case.secondary == "hash":
        indexes = [nb.HashIndex(case.on)]
    elif case.secondary == "sorted":
        indexes = [nb.SortedIndex(case.on)]
    keywords = {
        "cluster_by": key_cases.sort_keys(case.names, case.orders),
        "indexes": indexes,
        "options": nb.WriteOptions(**layout),
    }
    files = data.draw(st.sampled_from([0, 0, 1, 2, 5]))
    if not files:
        nb.write(case.build, folder / "t.nimble", **keywords)
        return nb.open(folder / "t.nimble")
    table = case.build
    if data.draw(st.booleans()):  # files of disjoint key ranges, as Spark writes them
        table = key_cases.in_file_order(table, case.names, case.orders)
    size = max(1, -(-table.num_rows // files))
    tables = [table.slice(i, size) for i in range(0, max(1, table.num_rows), size)]
    return make_dataset(folder / "d", tables, **keywords)


def inside(value: Any, lower: Any, upper: Any) -> bool:
    """Null and NaN are between nothing, and nothing is between them."""
    if any(v is None or v != v for v in (value, lower, upper)):
        return False
    return bool(lower <= value <= upper)


def nested_loop(case: Case, how: str, null_equals: bool, condition: str) -> list[tuple[Any, Any]]:
    """(p, row) of every joined row; row is None where the build side has none, or is not asked."""
    passes = CONDITIONS[condition][1]
    build_keys = oracle.table_keys(case.build, case.on)
    probe_keys = oracle.table_keys(case.probe, case.on)
    bx, px = (side.column("x").to_pylist() for side in (case.build, case.probe))
    ranged: list[Any] = []
    if case.between is not None:
        values = [key[0] for key in oracle.table_keys(case.build, [case.between])]
        bounds = oracle.table_keys(case.probe, ["lo", "hi"])
        ranged = [[inside(value, *bound) for value in values] for bound in bounds]

    def joins(p: int, b: int) -> bool:
        return (not ranged or ranged[p][b]) and passes(px[p], bx[b]) is True

    return oracle.join(probe_keys, build_keys, how, null_equals=null_equals, passes=joins)


@settings(max_examples=5 * settings.default.max_examples)
@given(case=cases(), condition=st.sampled_from(list(CONDITIONS)), data=st.data())
def test_join_is_the_nested_loop(
    tmp_path_factory: Any, case: Case, condition: str, data: st.DataObject
) -> None:
    build = written(case, data, tmp_path_factory.mktemp("join"))
    null_equals = data.draw(st.booleans())
    cut = data.draw(st.sampled_from([1, 3, 1000]))
    batches = case.probe.to_batches(cut) or []
    probe = pa.RecordBatchReader.from_batches(case.probe.schema, batches)
    whole = data.draw(st.booleans())
    for how in HOWS:
        got = nb.index_join(
            case.probe if whole else probe,
            build,
            on=case.on,
            how=how,
            columns=["row", "text"],
            condition=CONDITIONS[condition][0],
            between=None if case.between is None else {case.between: ("lo", "hi")},
            null_equals=null_equals,
        )
        if isinstance(got, pa.RecordBatchReader):
            got = got.read_all()
            probe = pa.RecordBatchReader.from_batches(case.probe.schema, batches)
        got.validate(full=True)
        numbers = got.column("p").to_pylist()
        assert numbers == sorted(numbers), "probe order"
        matched = how in ("inner", "left")
        rows = got.column("row").to_pylist() if matched else [None] * len(numbers)
        want = nested_loop(case, how, null_equals, condition)
        by_row = sorted(
            zip(numbers, rows, strict=True),
            key=lambda pair: (pair[0], -1 if pair[1] is None else pair[1]),
        )
        assert by_row == want, how
        if matched:
            texts = case.build.column("text").to_pylist()
            assert got.column("text").to_pylist() == [None if r is None else texts[r] for r in rows]
