"""Files are left out by statistics: all that the library leaves out, and none with a row."""

from __future__ import annotations

import contextlib
import datetime
import random
import struct
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from library_expressions import has_infinity, library_expression
from pyiceberg.expressions import visitors as ice_visitors

import nimblepy as nb
from nimblepy.errors import CorruptFileError
from nimblepy.expr.filter import parse_filter
from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import DataFile, Metrics
from nimblepy.table.base.values import constant
from nimblepy.table.reading.plan import SnapshotPlan, clear_caches
from nimblepy.table.table import Table

_KINDS = [
    pa.bool_(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.date32(),
    pa.time64("us"),
    pa.timestamp("us"),
    pa.string(),
    pa.binary(),
    pa.binary(4),
    pa.decimal128(9, 2),
]
_TEXTS = ["", "a", "ab", "abc", "b", "é", "éa", "zz", "😀", "\U0010ffff"]


def _value(kind: pa.DataType, rng: random.Random) -> Any:
    """As Iceberg keeps it in memory."""
    if pa.types.is_boolean(kind):
        return rng.random() < 0.5
    if pa.types.is_floating(kind):
        return rng.choice([-1.5, -0.0, 0.0, 0.5, 2.0, 7.0, float("inf")])
    if pa.types.is_string(kind):
        return rng.choice(_TEXTS)
    if pa.types.is_fixed_size_binary(kind) and not pa.types.is_decimal(kind):
        return bytes(rng.choices(b"\x00\x01\xff", k=4))
    if pa.types.is_binary(kind):
        return bytes(rng.choices(b"\x00\x01\xff", k=rng.randrange(4)))
    if pa.types.is_decimal(kind):
        return Decimal(rng.randrange(-500, 500)).scaleb(-2)
    small = rng.randrange(0 if pa.types.is_time(kind) else -5, 9)
    days = pa.types.is_timestamp(kind) or pa.types.is_int64(kind)
    return small * 86_400_000_000 if days and rng.random() < 0.3 else small


def _scalar(kind: pa.DataType, value: Any) -> pa.Scalar:
    return constant(kind, value)


def _metrics(kinds: dict[int, pa.DataType], rows: int, rng: random.Random) -> Metrics:
    values, nulls, nans, lower, upper = {}, {}, {}, {}, {}
    for number, kind in kinds.items():
        if rng.random() < 0.1:
            continue
        if rng.random() < 0.9:
            values[number] = rows
        if rng.random() < 0.9:
            nulls[number] = rng.choice([0, 0, 1, rows])
        if pa.types.is_floating(kind) and rng.random() < 0.8:
            nans[number] = rng.choice([0, 0, 1, rows])
        ends = [_value(kind, rng), _value(kind, rng)]
        ends.sort()
        if pa.types.is_floating(kind) and rng.random() < 0.2:
            ends[rng.randrange(2)] = float("nan")
        for found, value in zip((lower, upper), ends, strict=True):
            if rng.random() < 0.85:
                found[number] = ice.bound_bytes(kind, value)
        # Bounds of before the column was widened.
        if pa.types.is_int64(kind) and rng.random() < 0.4:
            for found, value in zip((lower, upper), ends, strict=True):
                if number in found and abs(value) < 1 << 31:
                    found[number] = struct.pack("<i", value)
        if pa.types.is_float64(kind) and rng.random() < 0.4:
            for found, value in zip((lower, upper), ends, strict=True):
                if number in found:
                    found[number] = struct.pack("<f", value)
    return Metrics(values=values, nulls=nulls, nans=nans, lower=lower, upper=upper)


def _leaves(schema: pa.Schema, rng: random.Random) -> Iterator[tuple[Any, pa.DataType]]:
    while True:
        item = rng.choice(list(schema))
        if pa.types.is_struct(item.type):
            inner = rng.choice(list(item.type))
            yield pc.field(item.name, inner.name), inner.type
        else:
            yield pc.field(item.name), item.type


def _predicate(leaves: Iterator[Any], rng: random.Random, depth: int = 0) -> pc.Expression:
    if depth < 2 and rng.random() < 0.5:
        left, right = (_predicate(leaves, rng, depth + 1) for _ in range(2))
        return left & right if rng.random() < 0.5 else left | right
    field, kind = next(leaves)
    roll = rng.random()
    if roll < 0.1:
        return field.is_null()
    if roll < 0.2:
        return field.is_valid()
    values = [_scalar(kind, _value(kind, rng)) for _ in range(rng.choice([1, 2, 3, 300]))]
    if roll < 0.35:
        return field.isin(pa.array([value.as_py() for value in values], kind))
    if pa.types.is_string(kind) and roll < 0.6:
        return pc.starts_with(field, values[0].as_py())
    value = values[0]
    if pa.types.is_floating(kind) and rng.random() < 0.1:
        value = pa.scalar(float("nan"), kind)
    op = rng.choice(["__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"])
    return getattr(field, op)(value)


def _spec(schema: pa.Schema, rng: random.Random) -> list[str]:
    found = []
    for item in rng.sample(list(schema), k=min(len(schema), rng.randrange(3))):
        kind = item.type
        choices = ["{}", "bucket(5, {})"]
        if pa.types.is_struct(kind) or pa.types.is_boolean(kind) or pa.types.is_floating(kind):
            continue
        if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            choices += ["day({})", "month({})", "year({})"]
        if pa.types.is_integer(kind) or pa.types.is_string(kind):
            choices += ["truncate(2, {})"]
        found.append(rng.choice(choices).format(item.name))
    return found


def _partition(metadata: ice.Metadata, spec_id: int, rng: random.Random) -> tuple[Any, ...]:
    spec, schema = metadata.ice.specs()[spec_id], metadata.ice.schema()
    found = []
    for item in spec.partition_type(schema).fields:
        kind = ice.to_arrow(type(schema)(item)).field(0).type
        found.append(None if rng.random() < 0.15 else _value(kind, rng))
    return tuple(found)


def random_table(lake: nb.Catalog, rng: random.Random) -> Table:
    """A table of forty files that are nowhere, in four manifests."""
    kinds = rng.sample(_KINDS, k=5)
    inner = pa.struct([("x", rng.choice(_KINDS)), ("y", pa.int64())])
    schema = pa.schema([*((f"c{i}", kind) for i, kind in enumerate(kinds)), ("s", inner)])
    table = lake.create_table(
        "a.b", schema, partition_by=_spec(schema, rng), cluster_by=[f"c{rng.randrange(5)}"]
    )
    metadata = table._metadata
    for first in range(0, 40, 10):
        commit = ice.SnapshotCommit("append")
        for i in range(first, first + 10):
            rows = rng.choice([0, 1, 5, 5, 5])
            commit.added.append(
                DataFile(
                    path=f"/nowhere/{i}.nimble",
                    format="NIMBLEPY",
                    rows=rows,
                    bytes=100 + i,
                    spec_id=metadata.spec_id,
                    partition=_partition(metadata, metadata.spec_id, rng),
                    metrics=_metrics(metadata.leaf_types(), rows, rng),
                )
            )
        metadata = commit.attempt(metadata)
    return table.refresh()


def random_filters(table: Table, rng: random.Random, count: int) -> list[Any]:
    leaves = _leaves(table.schema, rng)
    return [parse_filter(_predicate(leaves, rng), table.schema) for _ in range(count)]


_SEEDS = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(100, 300)]


@pytest.mark.parametrize("seed", [*range(10), *_SEEDS])
def test_files_that_the_library_leaves_out_are_left_out(lake: nb.Catalog, seed: int) -> None:
    rng = random.Random(seed)
    table = random_table(lake, rng)
    if seed % 2:
        clear_caches()  # what was written is read
    metadata = table._metadata
    plan = SnapshotPlan(metadata, metadata.head(), None)
    known = [e for m in metadata.manifests(metadata.head()) for e in metadata.entries(m)]
    assert [member.file for member in plan.members()] == [entry.file for entry in known]
    left_out = 0
    for filter in random_filters(table, rng, 25):
        expected = _by_the_library(metadata, filter.conjuncts, known)
        found = SnapshotPlan(metadata, metadata.head(), None).members(filter.conjuncts)
        paths = [member.file.path for member in found]
        assert [member.file.path for member in plan.members(filter.conjuncts)] == paths
        if not any(map(has_infinity, filter.conjuncts)):
            assert set(paths) <= set(expected), str(filter)
        left_out += len(known) - len(expected)
    assert left_out > 50


def _by_the_library(metadata: ice.Metadata, conjuncts: Any, entries: Any) -> list[str]:
    schema, spec = metadata.ice.schema(), metadata.ice.spec()
    expression = library_expression(schema, conjuncts)
    metrics = ice_visitors._InclusiveMetricsEvaluator(schema, expression)
    projected = ice_visitors.inclusive_projection(schema, spec)(expression)
    fields = type(schema)(*spec.partition_type(schema).fields)
    partition = ice_visitors.expression_evaluator(fields, projected, True)
    return [
        entry.file.path
        for entry in entries
        if partition(entry.raw.data_file.partition) and metrics.eval(entry.raw.data_file)
    ]


def test_renamed_and_widened_columns_prune(lake: nb.Catalog) -> None:
    table = lake.create_table(
        "a.b", pa.table({"n": pa.array([1, 2], pa.int32()), "d": [datetime.date(2024, 1, 1)] * 2})
    )
    with table.alter() as a:
        a.widen("n", pa.int64())
        a.rename_column("n", "m")
    table.append(pa.table({"m": [1 << 40], "d": [datetime.date(2024, 1, 2)]}))
    for filter, files in (
        ("m > 5", 1), ("m < 5", 1), ("m > 1099511627776", 0), ("m >= 0", 2), ("m = 2", 1)
    ):  # fmt: skip
        parsed = parse_filter(filter, table.schema)
        assert len(table._current.plan.members(parsed.conjuncts)) == files, filter


def test_a_damaged_manifest_is_an_error(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", pa.table({"n": range(10), "s": ["x"] * 10}))
    metadata = table._metadata
    manifest = metadata.manifests(metadata.head())[0]
    path = ice.local_path(manifest.path)
    with open(path, "rb") as source:
        whole = source.read()
    rng = random.Random(1)
    for cut in sorted({*rng.sample(range(len(whole)), 60), len(whole) - 1, 0}):
        with open(path, "wb") as target:
            target.write(whole[:cut])
        with pytest.raises(CorruptFileError, match="avro"):
            list(metadata.columns([manifest]))
    for _ in range(200):
        at = rng.randrange(len(whole))
        damaged = bytearray(whole)
        damaged[at] ^= 1 << rng.randrange(8)
        with open(path, "wb") as target:
            target.write(damaged)
        with contextlib.suppress(CorruptFileError):
            list(metadata.columns([manifest]))


@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
def test_bounds_of_fixed_length_are_cut(lake: nb.Catalog, data_format: Any) -> None:
    kind = pa.binary(32)
    schema = pa.schema([("k", kind), ("v", pa.int64())])
    table = lake.create_table("a.b", schema, cluster_by="k", data_format=data_format)
    ends = [(i, j) for i in (0, 1, 9, 254, 255) for j in (0, 9, 255)]
    keys = [bytes([i]) * 31 + bytes([j]) for i, j in ends]
    for i in range(3):
        mine = keys[i::3]
        table.append(pa.table({"k": pa.array(mine, kind), "v": range(i, 15, 3)}, schema))
    assert {len(m.file.metrics.lower[1]) for m in table._current.members} == {16}
    clear_caches()
    table = lake.table("a.b")
    assert sorted(table.to_table()["k"].to_pylist()) == keys
    for i, key in enumerate(keys):
        assert table.get(key) == {"k": key, "v": i}
        at_most = table.to_table(filter=pc.field("k") <= pa.scalar(key, kind))
        assert sorted(at_most["v"].to_pylist()) == list(range(i + 1))
    assert table.compact().files_removed == 3
    assert table.to_table()["k"].to_pylist() == keys


LONG = [Decimal("12345678901234567890123456789012345601"), Decimal(10) ** 37]


@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
@pytest.mark.parametrize("scale", [0, 3])
def test_decimals_that_are_longer_than_a_context(
    lake: nb.Catalog, data_format: Any, scale: int
) -> None:
    """Bounds keep all 38 digits: rounded ones would prove that a whole file passes."""
    kind = pa.decimal128(38, scale)
    near = [Decimal((0, v.as_tuple().digits, -scale)) for v in LONG]
    near.append(Decimal((0, (*LONG[0].as_tuple().digits[:-2], 9, 9), -scale)))
    data = pa.table({"d": pa.array(near, kind)})
    table = lake.create_table("a.b", data.schema, data_format=data_format)
    table.append(data.slice(0, 1).append_column("x", pa.array([1])).select(["d"]))
    table.append(pa.table({"d": pa.array([near[0], near[2]], kind)}))
    table.rewrite_manifests()
    table.delete(f"d = {near[2]}")
    assert table.to_table()["d"].to_pylist() == [near[0]] * 2


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us")], ids=str)
@pytest.mark.parametrize("transform", ["year", "month", "day"])
def test_the_last_day_there_is(lake: nb.Catalog, kind: pa.DataType, transform: str) -> None:
    """Sentinels such as 9999-12-31 lie where Python's dates end."""
    days = [datetime.date(2024, 2, 3), datetime.date(9999, 12, 31), datetime.date(1, 1, 1)]
    data = pa.table({"d": pa.array(days, pa.date32()).cast(kind)})
    table = lake.create_table("a.b", data, partition_by=f"{transform}(d)")
    for text, expected in [
        ("d > DATE '9999-12-31'", 0),
        ("d >= DATE '9999-12-31'", 1),
        ("d < DATE '0001-01-01'", 0),
        ("d <= DATE '0001-01-01' OR d > DATE '9999-12-31'", 1),
        ("d = DATE '9999-12-31' AND d > DATE '2024-01-01'", 1),
    ]:
        assert table.count_rows(text) == expected, text


_PLACES = pa.schema(
    {
        "id": pa.int64(),
        "place": pa.struct(
            {"region": pa.string(), "at": pa.struct({"x": pa.int64(), "y": pa.float64()})}
        ),
        "tags": pa.list_(pa.struct({"name": pa.string()})),
    }
)


def _place(i: int) -> tuple[int | None, float | None]:
    """Of the row with this number: x and y, which are null where what they are in is."""
    return (None, None) if i % 1000 == 7 else (i, None if i % 10 == 3 else -float(i))


def _places(region: str, numbers: range) -> pa.Table:
    x, y = zip(*map(_place, numbers), strict=True)
    kind = _PLACES.field("place").type
    mask = pa.array([value is None for value in x])
    at = pa.StructArray.from_arrays(
        [pa.array(x), pa.array(y)], fields=list(kind[1].type), mask=mask
    )
    place = pa.StructArray.from_arrays([pa.array([region] * len(x)), at], fields=list(kind))
    tags = pa.array([[{"name": "t"}]] * len(x), _PLACES.field("tags").type)
    return pa.Table.from_arrays([pa.array(numbers), place, tags], schema=_PLACES)


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
def test_members_of_structs_prune_manifests_files_and_blocks(
    lake: nb.Catalog, data_format: Any, indexed: bool
) -> None:
    table = lake.create_table(
        "a.b",
        _PLACES,
        partition_by=["place.region"],
        cluster_by=["place.at.x"],
        data_format=data_format,
    )
    parts = [
        (r, range(100_000 * i, 100_000 * i + 20_000)) for r in ("ap", "eu", "us") for i in range(3)
    ]
    for region, numbers in parts:
        table.append(_places(region, numbers))
    if indexed:
        table.rewrite_manifests()
    places = [(i, region, *_place(i)) for region, numbers in parts for i in numbers]
    cases: list[tuple[str, Callable[..., bool], int, int, int | None]] = [
        ("place.region = 'us'", lambda r, x, y: r == "us", 3, 3, 60_000),
        ("place.at.x = 100005", lambda r, x, y: x == 100_005, 9, 3, 3),
        (
            "place.at.x > 200000 AND place.region = 'eu'",
            lambda r, x, y: r == "eu" and x is not None and x > 200_000,
            3, 1, 19_999,
        ),
        (
            "place.at.y <= -219000",
            lambda r, x, y: y is not None and y <= -219_000,
            9, 3, 3 * 2 * 4096,
        ),
        ("place.at.y = 1.0", lambda r, x, y: False, 9, 0, 0),
        ("place.at.x IS NULL", lambda r, x, y: x is None, 9, 9, None),
        ("place.at.x IS NULL AND place.at.x = 3", lambda r, x, y: False, 9, 3, 0),
    ]  # fmt: skip
    for filter, passes, manifests, files, looked_at in cases:
        clear_caches()
        one = lake.table("a.b")
        one._metadata.reads = 0
        found = one.scan(["id"], filter=filter).to_table()["id"].to_pylist()
        assert sorted(found) == sorted(i for i, *place in places if passes(*place)), filter
        # The manifest list, and the index in the place of all manifests.
        assert one._metadata.reads == 1 + (1 if indexed else manifests), filter
        explained = one.scan(filter=filter).explain()
        assert dict(explained.details)["files opened"] == files, filter
        if data_format == "nimble" and looked_at is not None:
            counts = [dict(child.details).get("rows to look at", 0) for child in explained.children]
            assert sum(counts) <= looked_at, filter
    assert table.get(100_005)["id"] == 100_005


@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
def test_infinities_of_float32_columns_are_found(lake: nb.Catalog, data_format: Any) -> None:
    """The library takes a literal above the largest float32 for one above all values."""
    inf, y = float("inf"), pc.field("y")
    data = pa.table({"y": pa.array([inf, inf], pa.float32())})
    table = lake.create_table("a.b", data, data_format=data_format)
    table.append(pa.table({"y": pa.array([-inf, 1.0, None], pa.float32())}))
    above = [y == inf, y >= inf, y > 1e39, y > 1e300, y.isin([inf])]
    below = [y == -inf, y <= -inf, y < -1e39, y < -1e300, y.isin([-inf])]
    assert [table.to_table(filter=f).num_rows for f in above] == [2] * 5
    assert [table.to_table(filter=f).num_rows for f in below] == [1] * 5
    assert table.delete(y < inf).rows_deleted == 2
    assert table.delete(y > 1e300).rows_deleted == 2


@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("s.x = 1", [3, 4, None]),
        ("s.x <> 1", [1, 1, None]),
        ("s.x > 1", [1, 1, None]),
        ("s.x < 4", [4, None]),
        ("s.x IN (1, 4)", [3, None]),
        ("s.x NOT IN (1)", [1, 1, None]),
        ("s.x IS NOT NULL", [None]),
        ("s.x IS NULL", [1, 1, 3, 4]),
        ("s.t.u LIKE 'a%'", [4, None]),
        ("s.t.u = 'ab'", [3, 4, None]),
    ],
)
def test_deletes_by_members_of_structs(
    lake: nb.Catalog, data_format: Any, text: str, left: list[int | None]
) -> None:
    """The library's proof that a whole file passes knows columns of the top level alone."""
    kind = pa.struct([("x", pa.int64()), ("t", pa.struct([("u", pa.string())]))])
    schema = pa.schema([("i", pa.int64()), ("s", kind)])
    table = lake.create_table("a.b", schema, data_format=data_format)
    for xs in ([(1, "ab"), (1, "ab")], [(3, "ac"), (4, None)], [(None, None)]):
        rows = [{"i": 0, "s": None if x is None else {"x": x, "t": {"u": u}}} for x, u in xs]
        table.append(pa.Table.from_pylist(rows, schema))
    before = len(table._current.members)
    done = table.delete(text)
    found = [None if s is None else s["x"] for s in table.to_table()["s"].to_pylist()]
    assert sorted(found, key=str) == sorted(left, key=str)
    if text == "s.x = 1":  # proved, not read
        assert (done.files_removed, done.bytes_written, before) == (1, 0, 3)


@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
def test_members_that_must_have_values_are_null_below_null(
    lake: nb.Catalog, data_format: Any
) -> None:
    """The library takes a required member of an optional struct for one that is never null."""
    kind = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    schema = pa.schema([("i", pa.int64()), ("s", kind)])
    table = lake.create_table("a.b", schema, data_format=data_format)
    rows = [{"i": 1, "s": {"x": 5}}, {"i": 2, "s": None}]
    table.append(
        pa.Table.from_pylist(rows, pa.schema([("i", "i8"), ("s", pa.struct([("x", "i8")]))]))
    )
    assert table.to_table(["i"], filter="s.x IS NULL")["i"].to_pylist() == [2]
    assert table.to_table(["i"], filter="s.x <> 4")["i"].to_pylist() == [1]


@pytest.mark.parametrize("partition", ["s.x", "bucket(3, s.x)", "truncate(10, s.x)"])
def test_partitions_of_required_members_below_null(lake: nb.Catalog, partition: str) -> None:
    """Manifests had no room for the null that such a struct gives a partition."""
    kind = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    schema = pa.schema([("i", pa.int64()), ("s", kind)])
    table = lake.create_table("a.b", schema, partition_by=[partition])
    rows = [{"i": 1, "s": {"x": 5}}, {"i": 2, "s": None}]
    table.append(
        pa.Table.from_pylist(rows, pa.schema([("i", "i8"), ("s", pa.struct({"x": "i8"}))]))
    )
    clear_caches()
    for _ in range(2):
        assert lake.table("a.b").count_rows("s.x IS NULL") == 1
        assert lake.table("a.b").count_rows("s.x = 5") == 1
        table.rewrite_manifests()
