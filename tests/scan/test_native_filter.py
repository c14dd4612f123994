"""Filters evaluated on encoded data, one column of each kind of encoding, over several segments:
what passes is what pa.Table.filter keeps.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from exact import assert_same_table

import nimblepy as nb
from nimblepy.expr.filter import parse_filter
from nimblepy.file.pushdown import split

pytestmark = pytest.mark.model

N = 150_000  # rows: two segments
_WORDS = [
    "carefully",
    "final",
    "deposits",
    "sleep",
    "furiously",
    "about",
    "the",
    "ironic",
    "pending",
    "packages",
]


def _table() -> pa.Table:
    rng = np.random.default_rng(5)
    noise = rng.integers(-(2**62), 2**62, N)
    sums = np.round(rng.random(N) * 1e5, 2)
    sums[::5000] = [math.nan, math.inf, -math.inf, -0.0, 1e-9] * 6
    nulls = rng.random(N) < 0.1
    words = np.array(_WORDS)
    texts = [" ".join(row) for row in words[rng.integers(0, len(words), (N, 4))]]
    few = rng.choice(["low", "high", "not given", ""], N)
    days = rng.integers(8000, 10000, N).astype("int32")
    cents = rng.integers(0, 50_000_000, N)
    money = pa.array(cents).cast(pa.decimal128(19, 0)).view(pa.decimal128(19, 2))
    return pa.table(
        {
            "row": pa.array(np.arange(N)),
            "small": pa.array(rng.integers(-40, 1000, N), mask=nulls),
            "tiny": pa.array(rng.integers(-128, 128, N), pa.int8()),
            "short": pa.array(rng.integers(0, 65536, N), pa.uint16()),
            "noise": pa.array(noise),
            "u64": pa.array(noise.astype("uint64")),
            "skewed": pa.array(np.where(rng.random(N) < 0.01, noise, noise % 50)),
            "same": pa.array(np.full(N, 7)),
            "runs": pa.array(np.repeat(rng.integers(0, 60, N // 50), 50)),
            "sparse": pa.array(np.where(rng.random(N) < 0.001, noise % 9, 3), pa.int64()),
            "price": pa.array(sums, mask=nulls),
            "real": pa.array(rng.standard_normal(N)),
            "single": pa.array(np.round(rng.random(N) * 100, 1), pa.float32()),
            "money": money,
            "wide": pa.array([Decimal(int(v)) * 10**20 for v in noise[: N // 50]] * 50).cast(
                pa.decimal256(50, 0)
            ),
            "day": pa.array(days, pa.date32()),
            "at": pa.array(days.astype("int64") * 86_400_000_000, pa.timestamp("us", "UTC")),
            "flag": pa.array(rng.random(N) < 0.3, mask=nulls),
            "rare": pa.array(rng.random(N) < 0.0005),
            "few": pa.array(few, mask=nulls),
            "cat": pa.array(few).dictionary_encode(),
            "clerk": pa.array([f"Clerk#{v:09}" for v in rng.integers(0, 1000, N)]),
            "text": pa.array(texts, pa.large_string()),
            "view": pa.array(texts, pa.string_view()),
            "blob": pa.array([bytes(v) for v in rng.integers(0, 256, (N, 3)).astype("uint8")]),
            "fixed": pa.array(
                [bytes(v) for v in rng.integers(0, 256, (N, 3)).astype("uint8")], pa.binary(3)
            ),
            "loc": pa.StructArray.from_arrays(
                [pa.array(rng.integers(0, 9, N), mask=nulls), pa.array(texts)],
                ["n", "t"],
                mask=pa.array(rng.random(N) < 0.05),
            ),
        }
    )


TABLE = _table()
PLAIN = TABLE.drop_columns(["view"])  # pyarrow cannot filter views
OPS: list[Callable[[Any, Any], pc.Expression]] = [
    lambda a, b: a == b,
    lambda a, b: a != b,
    lambda a, b: a < b,
    lambda a, b: a <= b,
    lambda a, b: a > b,
    lambda a, b: a >= b,
]
# pyarrow has no comparison or is_in for some of these: they are tested in test_filter.py.
LEAVES = [name for name in TABLE.column_names if name not in ("loc", "view", "fixed", "cat")]


@pytest.fixture(scope="module", params=["balanced", "fast", "compact"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("native") / "t.nimble")
    nb.write(TABLE, path, options=nb.WriteOptions(compression=request.param, zone_rows=8192))
    return path


@pytest.fixture(params=[True, False], ids=["mapped", "read"])
def file(request: pytest.FixtureRequest, path: str) -> Any:
    return nb.open(path, mmap=request.param)


def _leaf(rng: random.Random) -> pc.Expression:
    name = rng.choice(LEAVES)
    column = TABLE[name]
    field = pc.field(name)

    def value() -> pa.Scalar:
        while not (found := column[rng.randrange(N)]).is_valid:
            pass
        return found

    kind = rng.randrange(9)
    if kind == 0:
        return field.is_null() if rng.random() < 0.5 else field.is_valid()
    if kind == 1 and name not in ("price",):
        members = pa.array([value() for _ in range(rng.choice([1, 3, 30]))], column.type)
        return field.isin(members) if rng.random() < 0.7 else ~field.isin(members)
    if kind == 2 and pa.types.is_large_string(column.type):
        return pc.starts_with(field, rng.choice(["care", "final d", "x", ""]))
    if kind <= 5 and name != "flag":
        low, high = sorted((value(), value()), key=lambda scalar: scalar.as_py())
        return (field >= low) & (field < high)
    return rng.choice(OPS)(field, value())


def _filter(rng: random.Random, depth: int = 2) -> pc.Expression:
    if depth == 0 or rng.random() < 0.3:
        return _leaf(rng)
    left, right = _filter(rng, depth - 1), _filter(rng, depth - 1)
    return rng.choice([lambda: left & right, lambda: left & right, lambda: left | right])()


@pytest.mark.parametrize("seed", range(6))
def test_native_filter_any_encoding_equals_pyarrow(file: Any, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(12):
        expression = _filter(rng)
        want = PLAIN.filter(expression)
        threads = rng.choice([1, 3])
        scan = file.scan(["row", "text"], filter=expression, threads=threads)
        assert_same_table(scan.to_table(), want.select(["row", "text"]))
        assert scan.count() == want.num_rows, str(expression)


def test_native_filter_of_types_pyarrow_cannot_compare(file: Any) -> None:
    for name, plain in (("view", pa.string()), ("fixed", pa.binary()), ("cat", pa.string())):
        values = TABLE[name].cast(plain).to_pylist()
        for at in (0, 77, N - 1):
            found = file.scan(["row"], filter=pc.field(name) == TABLE[name][at]).to_table()
            want = [row for row, v in enumerate(values) if v == values[at]]
            assert found["row"].to_pylist() == want
    n = pc.field("loc", "n")
    want = PLAIN.filter(n > 4)["row"]
    assert file.scan(["row"], filter=n > 4).to_table()["row"] == want
    assert file.scan(filter="loc.n IS NULL").count() == PLAIN.filter(n.is_null()).num_rows


def test_native_filter_batches_are_full_ordered_and_never_empty(file: Any) -> None:
    condition = pc.field("small") < 700
    want = PLAIN.filter(condition)["row"].combine_chunks()
    for threads in (1, 2):
        scan = file.scan(["row"], filter=condition, batch_rows=10_000, threads=threads)
        batches = list(scan.to_batches())
        assert all(0 < batch.num_rows <= 10_000 for batch in batches)
        assert pa.concat_arrays([batch["row"] for batch in batches]) == want
    assert list(file.scan(["row"], filter="small > 5000").to_batches()) == []
    limited = file.scan(["row"], filter=condition, limit=12_345, batch_rows=1000)
    assert limited.to_table()["row"].combine_chunks() == want[:12_345]
    part = file.scan(["row"], filter=condition, row_range=(131_000, 131_100)).to_table()
    assert part["row"].to_pylist() == [v for v in want.to_pylist() if 131_000 <= v < 131_100]


def test_native_filter_leaves_to_pyarrow_only_what_it_must() -> None:
    def parts(sql: str) -> tuple[bool, bool]:
        native = split(parse_filter(sql, TABLE.schema).node)
        return native.spec is not None, native.residual is not None

    assert parts("small > 3 AND few = 'low' AND clerk LIKE 'Clerk%'") == (True, False)
    assert parts("NOT (price > 3) OR day IN (DATE '2000-01-01')") == (True, False)
    assert parts("small > 3 AND text LIKE '%iron%'") == (True, False)
    assert parts("text NOT LIKE '%iron%' OR small > 3") == (True, False)
    assert parts("small > 3 AND text LIKE '%iron%g'") == (True, True)
    assert parts("text LIKE '_iron%' OR small > 3") == (False, True)
    assert parts("money * (1 - tiny) > 7 AND loc.n + tiny <> short") == (True, False)
    assert parts("length(text) > 7 AND len(loc.t) = small") == (True, False)
    assert parts("length(cat) > 7 AND length(upper(text)) > 7") == (False, True)
    assert parts("u64 + tiny > 5") == (False, True)  # DuckDB's sum may be a double
    assert parts("price + small > 5") == (False, True)


@pytest.mark.parametrize(
    ("sql", "test"),
    [
        ("money * (1 - tiny) > -1000", lambda r: r["money"] * (1 - r["tiny"]) > -1000),
        ("money + tiny <> short - 3", lambda r: r["money"] + r["tiny"] != r["short"] - 3),
        ("NOT loc.n * tiny < short", lambda r: r["loc"] * r["tiny"] >= r["short"]),
        ("noise * 3 >= skewed + 1", lambda r: r["noise"] * 3 >= r["skewed"] + 1),
        ("runs - sparse = same", lambda r: r["runs"] - r["sparse"] == r["same"]),
        ("money * noise * 0.01 < 7", lambda r: r["money"] * r["noise"] < 700),
        ("length(text) > 22", lambda r: len(r["text"]) > 22),
        ("length(view) - small = 17", lambda r: len(r["view"]) - r["small"] == 17),
        (
            "len(few) * tiny <> length(clerk)",
            lambda r: len(r["few"]) * r["tiny"] != len(r["clerk"]),
        ),
        ("row < 300 AND length(text) < 20", lambda r: r["row"] < 300 and len(r["text"]) < 20),
        (
            "row % 200 = 3 AND 25 <= len(text)",
            lambda r: r["row"] % 200 == 3 and len(r["text"]) > 24,
        ),
    ],
)
def test_native_formula_of_any_encoding_is_exact(file: Any, sql: str, test: Any) -> None:
    names = [name for name in TABLE.column_names if name in sql]
    columns = {name: TABLE[name].to_pylist() for name in names}
    if "loc" in columns:
        columns["loc"] = [None if v is None else v["n"] for v in columns["loc"]]
    rows = (dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True))
    want = [at for at, row in enumerate(rows) if None not in row.values() and test(row)]
    assert file.scan(["row"], filter=sql).to_table()["row"].to_pylist() == want
    assert file.count_rows(sql) == len(want)


@pytest.mark.parametrize("seed", range(4))
def test_native_length_counts_characters(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    letters = ["a", "é", "ß", "漢", "🙂", "\0", "\x7f", "\u0300"]
    texts = [
        None if rng.random() < 0.1 else "".join(rng.choices(letters, k=rng.randrange(40)))
        for _ in range(70_000)
    ]
    path = tmp_path / "t.nimble"
    nb.write(pa.table({"t": pa.array(texts), "row": range(len(texts))}), path)
    for condition, test in (
        ("length(t) > 20", lambda text: len(text) > 20),
        ("length(t) = 0 AND row >= 0", lambda text: not text),
        ("length(t) * 2 <> 16", lambda text: len(text) != 8),
    ):
        want = [row for row, text in enumerate(texts) if text is not None and test(text)]
        assert nb.open(path).scan(["row"], filter=condition).to_table()["row"].to_pylist() == want


@pytest.mark.parametrize("part", ["ironic", "c", "y f", "absent", "final deposits", "a%'", "%"])
@pytest.mark.parametrize("name", ["text", "view", "cat", "few", "loc.t", "clerk", "blob"])
def test_native_search_of_a_part_equals_python(path: str, name: str, part: str) -> None:
    top, _, field = name.partition(".")
    values = TABLE[top].to_pylist()
    if field:
        values = [None if value is None else value[field] for value in values]
    wanted = part.encode() if name == "blob" else part
    pattern = part.replace("'", "''").replace("%", "!%")
    for negation in (False, True):
        word = "NOT LIKE" if negation else "LIKE"
        sql = f"{name} {word} '%{pattern}%' ESCAPE '!'"
        want = sum(v is not None and (wanted in v) != negation for v in values)
        assert nb.open(path).count_rows(sql) == want


def test_native_filter_with_a_residual_reads_it_where_the_rest_passes(file: Any) -> None:
    sql = "small < 20 AND text LIKE '%ironic%' AND few <> 'low'"
    ironic = pc.match_substring(pc.field("text"), "ironic")
    want = PLAIN.filter((pc.field("small") < 20) & ironic & (pc.field("few") != "low"))
    assert file.scan(["row"], filter=sql).to_table()["row"] == want["row"]
    assert file.scan(filter=sql).count() == want.num_rows


def test_native_filter_decodes_only_blocks_with_rows_that_pass(path: str) -> None:
    file = nb.open(path)
    bytes_of = {}
    for filter in ("day >= DATE '1990-01-01'", "day = DATE '1995-03-03' AND \"row\" < 20000"):
        file = nb.open(path)
        scan = file.scan(["text", "noise"], filter=filter)
        scan.count()
        counted = file.io_stats.bytes_read
        rows = scan.to_table().num_rows
        bytes_of[filter] = (counted, file.io_stats.bytes_read, rows)
    whole, few = bytes_of.values()
    size = Path(path).stat().st_size
    assert whole[2] > N / 2
    assert 0 < few[2] < 60
    # Counting reads what the filter needs; of the rest, blocks with rows that pass are read.
    assert whole[0] < size / 5
    assert few[1] - few[0] < (whole[1] - whole[0]) / 10


def test_scan_with_threads_equals_one_thread(path: str) -> None:
    file = nb.open(path)
    for columns in (None, ["row"], ["text", "price"]):
        one = file.scan(columns, threads=1, batch_rows=7000).to_table()
        assert_same_table(one, TABLE if columns is None else TABLE.select(columns))
        many = file.scan(columns, threads=3, batch_rows=7000).to_table()
        assert [len(chunk) for chunk in many[0].chunks] == [len(chunk) for chunk in one[0].chunks]
        assert_same_table(many, one)
    # Left half read, threads and all.
    reader = file.scan(threads=3, batch_rows=1000).to_reader()
    assert reader.read_next_batch().num_rows == 1000
    del reader
    assert dt.date(1990, 1, 1) < file.scan(["day"]).to_table()["day"][0].as_py()


def test_batches_stay_as_they_are_when_their_memory_is_used_again(path: str) -> None:
    file = nb.open(path)
    kept = [batch for i, batch in enumerate(file.scan(batch_rows=20_000).to_reader()) if i % 3 == 0]
    for _ in range(3):
        for _batch in file.scan(batch_rows=20_000, threads=2).to_reader():
            pass
    for i, batch in enumerate(kept):
        want = TABLE.slice(i * 60_000, 20_000)
        assert_same_table(pa.Table.from_batches([batch]), want)


def test_native_length_reads_the_texts_of_rows_that_are_left(tmp_path: Path) -> None:
    # Of a file that is not mapped, it read whole segments.
    rng = random.Random(3)
    texts = ["".join(rng.choices("abcdefghij", k=200)) for _ in range(70_000)]
    nb.write(pa.table({"id": range(len(texts)), "t": texts}), tmp_path / "t.nimble")
    with nb.open(tmp_path / "t.nimble", mmap=False) as file:
        scan = file.scan(["id"], filter="id IN (5, 69000) AND length(t) > 3")
        assert scan.to_table()["id"].to_pylist() == [5, 69000]
        assert file.io_stats.bytes_read < file.size_bytes / 10
