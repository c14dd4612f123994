"""Tables published as Delta: what DuckDB and delta-rs read equals what the table has."""

from __future__ import annotations

import datetime
import json
import math
import os
import random
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from duckdb_extensions import with_extensions
from processes import pool_of

import nimblepy as nb

pytest.importorskip("pyiceberg")
deltalake = pytest.importorskip("deltalake")

SCHEMA = pa.schema(
    {
        "k": pa.int32(),
        "text": pa.string(),
        "time": pa.timestamp("us"),
        "zoned": pa.timestamp("us", "UTC"),
        "real": pa.float32(),
        "price": pa.decimal128(12, 2),
        "day": pa.date32(),
        "flag": pa.bool_(),
        "id": pa.uuid(),
        "bytes": pa.binary(),
        "list": pa.list_(pa.int64()),
        "inner": pa.struct([("x", pa.int64()), ("y", pa.string())]),
        "map": pa.map_(pa.string(), pa.int64()),
        "vector": pa.list_(pa.float32(), 2),
    }
)
NAIVE = [
    datetime.datetime(1, 1, 1),
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime.datetime(2024, 2, 29, 12, 30, 1, 7),
    datetime.datetime(9999, 12, 31, 23, 59, 59, 999999),
]


def duck() -> Any:
    return with_extensions("delta")


def delta_rs(location: str) -> pa.Table:
    table = deltalake.DeltaTable(location)
    query = deltalake.QueryBuilder().register("t", table)
    return pa.table(query.execute("SELECT * FROM t").read_all())


def folder(table: nb.Table) -> str:
    return table.location.removeprefix("file://")


def plain(value: Any) -> Any:
    """A value in the form that all readers have."""
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, dict):
        return tuple((name, plain(item)) for name, item in sorted(value.items()))
    if isinstance(value, (list, tuple)):
        return tuple(map(plain, value))
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.UTC)
    return value


def rows_of(table: pa.Table) -> list[str]:
    columns = {name: map(plain, table.column(name).to_pylist()) for name in table.column_names}
    return sorted(map(repr, zip(*columns.values(), strict=True))) if columns else []


def check(table: nb.Table, con: Any, told: str) -> None:
    expected = table.to_table()
    place = folder(table)
    by_duckdb = con.execute(f"SELECT * FROM delta_scan('{place}')").to_arrow_table()
    for found, engine in ((by_duckdb, "DuckDB"), (delta_rs(place), "delta-rs")):
        assert found.column_names == expected.column_names, f"{told}: {engine}"
        assert rows_of(found) == rows_of(expected), f"{told}: {engine}"


def value(rng: random.Random, kind: pa.DataType) -> Any:
    if rng.random() < 0.15:
        return None
    made: dict[Any, Any] = {
        pa.string(): lambda: rng.choice(["", "a", "Zürich", "\U0001f600" * 20, "x" * 40]),
        pa.timestamp("us"): lambda: rng.choice(NAIVE),
        pa.timestamp("us", "UTC"): lambda: rng.choice(NAIVE).replace(tzinfo=datetime.UTC),
        pa.decimal128(12, 2): lambda: Decimal(rng.randrange(-(10**12) + 1, 10**12)) / 100,
        pa.date32(): lambda: datetime.date.fromordinal(rng.randrange(1, 3_652_060)),
        pa.bool_(): lambda: rng.random() < 0.5,
        pa.uuid(): lambda: uuid.UUID(int=rng.getrandbits(128)),
        pa.binary(): lambda: rng.randbytes(rng.randrange(4)),
    }
    if kind in made:
        return made[kind]()
    if pa.types.is_floating(kind):
        number = rng.choice([math.nan, math.inf, -math.inf, -0.0, 0.0, 1.5, -2.25])
        return number
    if pa.types.is_integer(kind):
        return rng.choice([-(2**31), 2**31 - 1, 0, rng.randrange(100)])
    if pa.types.is_struct(kind):
        return {"x": rng.randrange(9), "y": rng.choice([None, "", "b"])}
    if pa.types.is_map(kind):
        return [("a", rng.randrange(9))]
    if pa.types.is_fixed_size_list(kind):
        return [rng.random() // 0.125, -0.5]
    return [rng.randrange(9), None][: rng.randrange(3)]


def some_rows(rng: random.Random, schema: pa.Schema, key: str) -> list[dict[str, Any]]:
    keys = rng.sample(range(60), rng.randrange(1, 12))
    names = [field for field in schema if field.name != key]
    return [{key: k, **{f.name: value(rng, f.type) for f in names}} for k in keys]


class History:
    """Random commits of one table, by several handles."""

    def __init__(self, seed: int, lake: nb.Catalog) -> None:
        self.rng = random.Random(seed)
        self.lake = lake
        self.key = "k"
        picked = ["k", *self.rng.sample(SCHEMA.names[1:], self.rng.randrange(2, 7))]
        schema = pa.schema([SCHEMA.field(name) for name in picked])
        partition = self.rng.choice([None, ["bucket(3, k)"], ["k"]])
        self.table = lake.create_table(
            f"h.t{seed}",
            schema,
            primary_key="k",
            partition_by=partition,
            data_format="parquet",
            format_version=self.rng.choice([2, 3]),
        )
        self.number = 0

    def step(self) -> str:
        kinds = "append upsert upsert delete overwrite alter alter compact branch rollback other"
        what = self.rng.choice(kinds.split())
        getattr(self, what)()
        return what

    def append(self) -> None:
        held = set(self.table.to_table([self.key])[self.key].to_pylist())
        rows = some_rows(self.rng, self.table.schema, self.key)
        self.table.append([row for row in rows if row[self.key] not in held] or None or self.none())

    def none(self) -> pa.Table:
        return self.table.schema.empty_table()

    def upsert(self) -> None:
        self.table.upsert(some_rows(self.rng, self.table.schema, self.key))

    def delete(self) -> None:
        self.table.delete(f'"{self.key}" % 5 = {self.rng.randrange(5)}')

    def overwrite(self) -> None:
        self.table.overwrite(some_rows(self.rng, self.table.schema, self.key))

    def compact(self) -> None:
        self.table.compact()

    def other(self) -> None:
        """A commit of another handle, which this one sees later."""
        other = self.lake.table(self.table.name)
        other.delete(f'"{self.key}" = {self.rng.randrange(60)}')
        self.table.refresh()

    def branch(self) -> None:
        self.number += 1
        name = f"b{self.number}"
        self.table.branch(name)
        self.table.at(branch=name).upsert(some_rows(self.rng, self.table.schema, self.key))
        if self.rng.random() < 0.7:
            self.table.fast_forward("main", to=name)
            self.table.refresh()

    def rollback(self) -> None:
        earlier = self.table.snapshots()["snapshot_id"].to_pylist()
        if earlier and self.table.snapshot is not None:
            ancestors = self.table.snapshots()
            parent = ancestors.filter(
                pa.compute.equal(ancestors["snapshot_id"], self.table.snapshot)
            )["parent_id"][0].as_py()
            if parent is not None:
                self.table.rollback(parent)

    def alter(self) -> None:
        names = [name for name in self.table.schema.names if name != self.key]
        what = self.rng.choice(["add", "rename", "drop", "again", "key", "widen"])
        with self.table.alter() as change:
            self.number += 1
            if what == "add" or not names:
                change.add_column(f"n{self.number}", self.rng.choice([pa.int32(), pa.string()]))
            elif what == "rename":
                change.rename_column(self.rng.choice(names), f"r{self.number}")
            elif what == "key":
                change.rename_column(self.key, f"k{self.number}")
                self.key = f"k{self.number}"
            elif what == "widen" and self.table.schema.field(self.key).type == pa.int32():
                change.widen(self.key, pa.int64())
            elif what == "drop" and len(names) > 1:
                change.drop_column(names[0])
            else:
                dropped = self.rng.choice(names)
                change.drop_column(dropped)
                change.add_column(dropped, pa.int64())


def check_history(seed: int, lake: nb.Catalog) -> None:
    history, con, done = History(seed, lake), duck(), []
    for _ in range(history.rng.randrange(3)):
        history.append()
    history.table.publish_delta()
    for _ in range(8):
        done.append(history.step())
        check(history.table, con, f"seed {seed}: {', '.join(done)}")


@pytest.mark.parametrize("block", range(4))
def test_random_histories(tmp_path: Path, block: int) -> None:
    lake = nb.connect(tmp_path)
    for seed in range(2):
        check_history(1000 * block + seed, lake)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_many_random_histories(tmp_path: Path, block: int) -> None:
    lake = nb.connect(tmp_path)
    for seed in range(30):
        check_history(100_000 + 1000 * block + seed, lake)


@pytest.fixture
def table(tmp_path: Path) -> nb.Table:
    schema = pa.schema({"k": pa.int64(), "text": pa.string(), "time": pa.timestamp("us", "UTC")})
    lake = nb.connect(tmp_path / "lake")
    made = lake.create_table("a.b", schema, primary_key="k", data_format="parquet")
    made.append(ROWS)
    return made


ROWS = pa.table(
    {
        "k": range(1000),
        "text": [None if k % 7 == 0 else f"text {k}" for k in range(1000)],
        "time": pa.array(range(1000), pa.timestamp("us", "UTC")),
    }
)


def commits(table: nb.Table) -> list[list[dict[str, Any]]]:
    log = Path(folder(table), "_delta_log")
    return [
        [json.loads(line) for line in path.read_text().splitlines()]
        for path in sorted(log.glob("*.json"))
    ]


def test_a_table_without_deletes_needs_no_feature(table: nb.Table) -> None:
    assert table.publish_delta() == 0
    first = commits(table)[0]
    assert first[1] == {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    table.delete("k = 1")
    protocol = commits(table)[1][1]["protocol"]
    assert protocol["readerFeatures"] == ["deletionVectors"]


def test_a_commit_lists_only_changed_files(table: nb.Table) -> None:
    table.publish_delta()
    table.append({"k": [1001]})
    actions = commits(table)[-1]
    assert [next(iter(action)) for action in actions] == ["commitInfo", "add"]
    table.tag("kept")
    assert len(commits(table)) == 2
    assert table.publish_delta() == 1  # nothing is new


def test_statistics_skip_files_and_no_rows(table: nb.Table) -> None:
    table.publish_delta()
    table.append({"k": [5000], "text": ["zz\U0010ffff" * 30], "time": [NAIVE[3]]})
    table.append({"k": [-5], "text": [""], "time": [NAIVE[0]]})
    table.delete("k % 3 = 0")
    con = duck()
    con.execute("SET timezone = 'UTC'")
    con.register("rows", table.to_table())
    for where in (
        "k > 990",
        "k < 0",
        "k = 5000",
        "text > 'zz'",
        "text = 'text 500'",
        "text IS NULL",
        "time > TIMESTAMPTZ '1970-01-01 00:00:00.000998Z'",
        "time = TIMESTAMPTZ '9999-12-31 23:59:59.999999Z'",
        "time < TIMESTAMPTZ '0002-01-01 00:00:00Z'",
    ):
        found, expected = (
            con.execute(f"SELECT k FROM {source} WHERE {where} ORDER BY k").fetchall()
            for source in (f"delta_scan('{folder(table)}')", "rows")
        )
        assert found == expected, where
        assert expected, where


def test_a_checkpoint_replaces_commits(table: nb.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    from nimblepy.table.delta import log as delta_log

    monkeypatch.setattr(delta_log, "_COMMITS", 5)
    table.publish_delta()
    with table.alter() as change:
        change.rename_column("text", "words")
    for number in range(6):
        table.upsert({"k": [number], "words": [f"new {number}"], "time": [NAIVE[2]]})
    log = Path(folder(table), "_delta_log")
    assert json.loads((log / "_last_checkpoint").read_text())["version"] == 4
    for path in log.glob("*.json"):
        if int(path.stem) < 4:
            path.unlink()
    check(table, duck(), "after a checkpoint")
    # A new process begins at the checkpoint.
    from nimblepy.table.delta.publish import _logs

    _logs.take(str(log))
    other = nb.connect(Path(folder(table)).parents[1]).table("a.b")
    other.delete("k = 60")
    check(other, duck(), "another process")


def test_old_commits_are_removed_after_a_day(
    table: nb.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nimblepy.table.delta import log as delta_log

    monkeypatch.setattr(delta_log, "_COMMITS", 3)
    table.publish_delta()
    log = Path(folder(table), "_delta_log")
    for path in log.iterdir():
        os.utime(path, (1, 1))
    for number in range(8):
        table.delete(f"k = {number}")
    names = {path.name for path in log.iterdir()}
    assert f"{0:020d}.json" not in names
    assert f"{1:020d}.json" in names  # not a day old
    check(table, duck(), "after removal")


def test_another_writer_is_noticed(table: nb.Table, caplog: pytest.LogCaptureFixture) -> None:
    table.publish_delta()
    deltalake.write_deltalake(folder(table), ROWS.slice(0, 1), mode="append")
    table.delete("k = 1")  # takes effect
    assert "wrote to the Delta table" in caplog.text
    assert table.get(1) is None
    with pytest.raises(nb.ConflictError, match="remove the directory _delta_log"):
        table.publish_delta()


def test_a_failed_publication_is_made_up_for(
    table: nb.Table, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from nimblepy.table import iceberg

    table.publish_delta()
    with monkeypatch.context() as patch:
        patch.setattr(iceberg, "create_object", lambda *_: (_ for _ in ()).throw(OSError("full")))
        table.delete("k = 1")
    assert "not brought up to date: full" in caplog.text
    assert delta_rs(folder(table)).num_rows == 1000
    table.delete("k = 2")
    check(table, duck(), "after the next commit")


def test_publication_ends(table: nb.Table) -> None:
    table.publish_delta()
    with pytest.raises(nb.InvalidArgumentError, match="published as Delta"):
        table.convert("nimble")
    assert table.publish_delta(keep=False) == 0
    table.delete("k = 1")
    assert delta_rs(folder(table)).num_rows == 1000
    assert table.publish_delta() == 1
    check(table, duck(), "again")
    table.publish_delta(keep=False)
    table.convert("nimble")


def test_the_log_stays_until_the_table_is_purged(table: nb.Table) -> None:
    table.publish_delta()
    table.delete("k = 1")
    assert table.remove_orphans(older_than=datetime.timedelta(0)).files == ()
    kinds = table.census()["kind"].to_pylist()
    assert kinds.count("delta log") == 2
    lake = nb.connect(Path(folder(table)).parents[1])
    lake.drop_table("a.b", purge=True)
    assert not list(Path(folder(table), "_delta_log").glob("*"))


def test_what_delta_does_not_have_is_refused(tmp_path: Path) -> None:
    lake = nb.connect(tmp_path)
    nimble = lake.create_table("a.nimble", pa.schema({"k": pa.int64()}))
    nimble.append({"k": [1]})
    with pytest.raises(nb.InvalidArgumentError, match="only Parquet files"):
        nimble.publish_delta()
    times = lake.create_table("a.t", pa.schema({"t": pa.time64("us")}), data_format="parquet")
    with pytest.raises(nb.InvalidArgumentError, match=r"'t' of type time64.us. cannot"):
        times.publish_delta()
    for table in (nimble, times):
        assert "nimblepy.publish-delta" not in table.properties
        assert not Path(folder(table), "_delta_log").exists()


def test_columns_renamed_before(tmp_path: Path) -> None:
    lake = nb.connect(tmp_path)
    table = lake.create_table("a.b", pa.schema({"k": pa.int64()}), data_format="parquet")
    table.append({"k": [1]})
    with table.alter() as change:
        change.rename_column("k", "key")
    table.publish_delta()  # all files have the old name
    table.append({"key": [2]})
    check(table, duck(), "renamed before")
    table.publish_delta(keep=False)
    with table.alter() as change:
        change.rename_column("key", "number")


def test_two_names_in_files_are_refused(tmp_path: Path) -> None:
    lake = nb.connect(tmp_path)
    table = lake.create_table("a.b", pa.schema({"k": pa.int64()}), data_format="parquet")
    table.append({"k": [1]})
    with table.alter() as change:
        change.rename_column("k", "key")
    table.append({"key": [2]})
    with pytest.raises(nb.InvalidArgumentError, match="'key' has the name"):
        table.publish_delta()
    table.overwrite(table.to_table())
    table.publish_delta()
    check(table, duck(), "rewritten")


def test_files_of_others_with_another_name_are_refused(
    table: nb.Table, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table.publish_delta()
    with table.alter() as change:
        change.rename_column("text", "words")
    pq.write_table(pa.table({"k": [7000], "words": ["w"]}), tmp_path / "other.parquet")
    table.add_files([tmp_path / "other.parquet"])
    assert "its column 'words' has the name 'words' in it" in caplog.text
    with pytest.raises(nb.InvalidArgumentError, match=r"Delta would misread"):
        table.publish_delta()


def test_fields_inside_columns_keep_their_names(tmp_path: Path) -> None:
    lake = nb.connect(tmp_path)
    schema = pa.schema({"s": pa.struct({"x": pa.int64()})})
    table = lake.create_table("a.b", schema, data_format="parquet")
    table.append([{"s": {"x": 1}}])
    table.publish_delta()
    with (
        pytest.raises(nb.InvalidArgumentError, match=r"column 's\.y': .* must keep its name"),
        table.alter() as change,
    ):
        change.rename_column("s.x", "y")
    with table.alter() as change:
        change.add_column("s.z", pa.int64())
    table.append([{"s": {"x": 2, "z": 3}}])
    check(table, duck(), "a new field inside")
    with table.alter() as change:
        change.drop_column("s.z")
    with (
        pytest.raises(nb.InvalidArgumentError, match=r"column 's\.z': .* name of a dropped one"),
        table.alter() as change,
    ):
        change.add_column("s.z", pa.int64())


def upsert_ten(place: str, number: int) -> None:
    table = nb.connect(place).table("a.b")
    for step in range(10):
        table.upsert({"k": [10_000 + 100 * number + step], "text": ["new"]})


def test_processes_publish_in_order(tmp_path: Path, table: nb.Table) -> None:
    table.publish_delta()
    place = str(Path(folder(table)).parents[1])
    with pool_of(4) as pool:
        pool.starmap(upsert_ten, [(place, number) for number in range(4)])
    table.refresh()
    assert table.num_rows == 1040
    table.publish_delta()
    check(table, duck(), "four processes")


def test_a_moved_lake_is_read_at_its_new_place(tmp_path: Path, table: nb.Table) -> None:
    table.publish_delta()
    table.delete("k = 1")
    table.close()
    os.rename(tmp_path / "lake", tmp_path / "moved")
    moved = nb.connect(tmp_path / "moved").table("a.b")
    found = delta_rs(str(next((tmp_path / "moved" / "a").iterdir())))
    assert rows_of(found) == rows_of(moved.to_table())
    moved.delete("k = 2")
    found = delta_rs(str(next((tmp_path / "moved" / "a").iterdir())))
    assert rows_of(found) == rows_of(moved.to_table())


@pytest.mark.parametrize(
    "octets", [b"", b"{", b"[]", b'{"commitInfo":{}}', b'{"commitInfo":null}', b"\xff"]
)
def test_a_damaged_log_is_an_error(table: nb.Table, octets: bytes) -> None:
    table.publish_delta()
    from nimblepy.table.delta.publish import _logs

    log = Path(folder(table), "_delta_log")
    _logs.take(str(log))
    (log / f"{0:020d}.json").write_bytes(octets)
    with pytest.raises((nb.CorruptFileError, nb.ConflictError)):
        table.publish_delta()
    table.delete("k = 1")  # the table itself is not affected


def parquet(lake: nb.Catalog, columns: dict[str, pa.DataType], **keywords: Any) -> nb.Table:
    return lake.create_table("a.b", pa.schema(columns), data_format="parquet", **keywords)


def test_a_name_that_is_taken_by_another_column(tmp_path: Path) -> None:
    table = parquet(nb.connect(tmp_path), {"a": pa.string(), "a-3": pa.string()})
    table.append({"a": ["old"], "a-3": ["x"]})
    table.publish_delta()
    with table.alter() as change:
        change.drop_column("a")
    with table.alter() as change:
        change.add_column("a", pa.string())
    table.append({"a": ["new"], "a-3": ["y"]})
    assert table.num_rows == 2
    check(table, duck(), "an invented name was taken")


def test_new_columns_with_a_default_are_refused(tmp_path: Path) -> None:
    table = parquet(nb.connect(tmp_path), {"k": pa.int64()}, format_version=3)
    table.append({"k": [1]})
    table.publish_delta()
    with pytest.raises(nb.InvalidArgumentError, match="without a default"), table.alter() as change:
        change.add_column("d", pa.int64(), default=5)
    table.publish_delta(keep=False)
    with table.alter() as change:
        change.add_column("d", pa.int64(), default=5)
    with pytest.raises(nb.InvalidArgumentError, match="lacks column 'd'"):
        table.publish_delta()
    assert table.properties["nimblepy.publish-delta"] == "false"


@pytest.mark.parametrize("what", ["again", "renamed", "inner", "case"])
def test_columns_that_changed_while_it_was_not_published(tmp_path: Path, what: str) -> None:
    table = parquet(nb.connect(tmp_path), {"a": pa.int64(), "s": pa.struct({"x": pa.int64()})})
    table.append([{"a": 1, "s": {"x": 2}}])
    table.publish_delta(keep=False)
    with table.alter() as change:
        if what == "inner":
            change.rename_column("s.x", "z")
        elif what == "renamed":
            change.rename_column("a", "b")
        else:
            change.drop_column("a")
    if what != "inner":
        with table.alter() as change:
            change.add_column("A" if what == "case" else "a", pa.int64())
    with pytest.raises(nb.InvalidArgumentError, match=r"would misread|differ|two columns"):
        table.publish_delta()
    table.overwrite(table.to_table())
    table.publish_delta()
    check(table, duck(), what)


def test_bounds_of_zeros(tmp_path: Path) -> None:
    for number, values in enumerate(([-0.0, 0.0], [-0.0], [0.0])):
        table = parquet(nb.connect(tmp_path / str(number)), {"d": pa.float64()})
        table.append({"d": values})
        table.publish_delta()
        for where in ("d >= 0.0", "d = 0.0", "d = -0.0", "d <= -0.0"):
            found = duck().execute(f"SELECT d FROM delta_scan('{folder(table)}') WHERE {where}")
            assert len(found.fetchall()) == len(values), (values, where)
            opened = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(folder(table)))
            found = pa.table(opened.execute(f"SELECT d FROM t WHERE {where}").read_all())
            assert found.num_rows == len(values), (values, where)


def test_a_checkpoint_of_another_program(table: nb.Table) -> None:
    from nimblepy.table.delta.publish import _logs

    table.publish_delta()
    deltalake.DeltaTable(folder(table)).create_checkpoint()
    _logs.take(str(Path(folder(table), "_delta_log")))
    table.delete("k = 1")
    check(table, duck(), "after another program's checkpoint")


def test_a_log_that_was_removed_and_published_again(table: nb.Table) -> None:
    from nimblepy.table.delta.publish import _logs

    table.publish_delta()
    for number in range(3):
        table.delete(f"k = {number}")
    log = Path(folder(table), "_delta_log")
    state = _logs.take(str(log))
    assert state is not None
    for path in log.iterdir():
        path.unlink()
    table.publish_delta()
    _logs.put(str(log), state)  # as in a process that knew the old log
    table.delete("k = 5")
    assert sorted(path.name for path in log.glob("*.json")) == [f"{n:020d}.json" for n in (0, 1)]
    check(table, duck(), "published again")


def test_files_outside_the_table(table: nb.Table, tmp_path: Path) -> None:
    table.publish_delta()
    pq.write_table(ROWS.slice(0, 2).set_column(0, "k", [[7000, 7001]]), tmp_path / "a b.parquet")
    table.add_files([tmp_path / "a b.parquet"])
    check(table, duck(), "a file elsewhere")


@pytest.mark.parametrize(
    "line",
    ["5", '{"add":null}', '{"remove":{}}', '{"protocol":5}'],
)
def test_a_damaged_commit_is_an_error(table: nb.Table, line: str) -> None:
    from nimblepy.table.delta.publish import _logs

    table.publish_delta()
    log = Path(folder(table), "_delta_log")
    _logs.take(str(log))
    first = (log / f"{0:020d}.json").read_text().splitlines()[0]
    (log / f"{0:020d}.json").write_text(f"{first}\n{line}\n")
    with pytest.raises(nb.NimbleError):
        table.publish_delta()


def test_columns_that_delta_does_not_have_are_refused(lake: nb.Catalog) -> None:
    # They were added, and the log was not brought up to date from then on.
    rows = pa.table({"id": [1]})
    table = lake.create_table(
        "a.ns", rows, primary_key="id", data_format="parquet", format_version=3
    )
    table.publish_delta()
    times = pa.table({"id": [2], "t": pa.array([1], pa.timestamp("ns"))})
    with pytest.raises(nb.InvalidArgumentError, match=r"'t'.*Delta.*publish_delta\(keep=False\)"):
        table.upsert(times, new_columns="add")
    with pytest.raises(nb.InvalidArgumentError, match=r"'t'.*Delta"), table.alter() as a:
        a.add_column("t", pa.timestamp("ns"))
    assert table.schema.names == ["id"]


def test_a_rollback_that_delta_would_misread_is_refused(lake: nb.Catalog) -> None:
    # It succeeded, and the log stayed as it was from then on.
    rows = pa.table({"id": [1, 2, 3], "c": ["x", "y", "z"]})
    table = lake.create_table("a.back", rows, primary_key="id", data_format="parquet")
    table.tag("old")
    with table.alter() as a:
        a.rename_column("c", "cc")
    table.overwrite(table.to_table())
    table.publish_delta()
    table.tag("new")
    table.delete(keys=[2])
    with pytest.raises(nb.InvalidArgumentError, match=r"misread.*publish_delta\(keep=False\)"):
        table.rollback("old")
    assert table.count_rows() == 2
    assert table.rollback("new").count_rows() == 3
    found = delta_rs(folder(table))
    assert sorted(found["id"].to_pylist()) == [1, 2, 3]
    table.publish_delta(keep=False)
    assert table.rollback("old").count_rows() == 3


def test_names_inside_structs_that_differ_in_case_are_refused(lake: nb.Catalog) -> None:
    schema = pa.schema([("id", pa.int64()), ("s", pa.struct([("a", pa.int32())]))])
    table = lake.create_table("a.inner", schema, primary_key="id", data_format="parquet")
    table.append([{"id": 1, "s": {"a": 1}}])
    table.publish_delta()
    with pytest.raises(nb.InvalidArgumentError, match="differ only in case"), table.alter() as a:
        a.add_column("s.A", pa.int32())
