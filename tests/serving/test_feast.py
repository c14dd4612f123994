"""The online store of Feast: equal to Feast's SQLite store for all types of values."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import nimblepy as nb

pytest.importorskip("feast")

from feast import Entity, FeatureStore, FeatureView, Field, FileSource
from feast.infra.online_stores.online_store import OnlineStore
from feast.infra.online_stores.sqlite import SqliteOnlineStore, SqliteOnlineStoreConfig
from feast.protos.feast.serving.ServingService_pb2 import GetOnlineFeaturesResponse
from feast.protos.feast.types.EntityKey_pb2 import EntityKey
from feast.protos.feast.types.Value_pb2 import (
    BoolList,
    BytesList,
    DoubleList,
    FloatList,
    Int32List,
    Int64List,
    Null,
    StringList,
    Value,
)
from feast.repo_config import RegistryConfig, RepoConfig
from feast.types import (
    Array,
    Bool,
    Bytes,
    Float32,
    Float64,
    Int32,
    Int64,
    Map,
    String,
    UnixTimestamp,
)
from feast.value_type import ValueType

from nimblepy.feast import NimbleOnlineStore, NimbleOnlineStoreConfig

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
TYPES = {
    "i32": Int32,
    "i64": Int64,
    "f32": Float32,
    "f64": Float64,
    "ok": Bool,
    "text": String,
    "blob": Bytes,
    "at": UnixTimestamp,
    "numbers": Array(Int64),
    "texts": Array(String),
    "blobs": Array(Bytes),
    "i32s": Array(Int32),
    "f32s": Array(Float32),
    "f64s": Array(Float64),
    "oks": Array(Bool),
    "ats": Array(UnixTimestamp),
}


def view(name: str = "drivers", **types: Any) -> FeatureView:
    return FeatureView(
        name=name,
        entities=[Entity(name="driver", join_keys=["driver_id"], value_type=ValueType.INT64)],
        ttl=timedelta(days=1),
        schema=[
            Field(name="driver_id", dtype=Int64),
            *(Field(name=n, dtype=t) for n, t in (types or TYPES).items()),
        ],
        source=FileSource(path="unused.parquet", timestamp_field="ts"),
    )


def config(online: Any, path: Path, project: str = "shop") -> RepoConfig:
    return RepoConfig(
        project=project,
        provider="local",
        registry=RegistryConfig(path=str(path / "registry.db")),
        online_store=online,
        entity_key_serialization_version=3,
        repo_path=path,
    )


def key(number: int) -> EntityKey:
    return EntityKey(join_keys=["driver_id"], entity_values=[Value(int64_val=number)])


def values(number: int) -> dict[str, Value]:
    if number % 5 == 4:
        return {name: Value() for name in TYPES}  # nulls
    return {
        "i32": Value(int32_val=-number),
        "i64": Value(int64_val=2**62 + number),
        "f32": Value(float_val=number / 4),
        "f64": Value(double_val=number / 3),
        "ok": Value(bool_val=number % 2 == 0),
        "text": Value(string_val="" if number == 1 else f"é{number}"),
        "blob": Value(bytes_val=bytes([number, 0])),
        "at": Value(unix_timestamp_val=1_700_000_000 + number),
        "numbers": Value(int64_list_val=Int64List(val=range(number % 3))),
        "texts": Value(string_list_val=StringList(val=["", f"t{number}"])),
        "blobs": Value(bytes_list_val=BytesList(val=[b"", b"\0"])),
        "i32s": Value(int32_list_val=Int32List(val=[-(2**31), number][: number % 3])),
        "f32s": Value(float_list_val=FloatList(val=[number / 4, float("inf")])),
        "f64s": Value(double_list_val=DoubleList(val=[number / 3] * (number % 2))),
        "oks": Value(bool_list_val=BoolList(val=[number % 2 == 0, False])),
        "ats": Value(unix_timestamp_list_val=Int64List(val=[0, 1_700_000_000 + number])),
    }


def test_values_equal_those_of_the_sqlite_store(tmp_path: Path) -> None:
    drivers = view()
    ours = NimbleOnlineStore(), config(NimbleOnlineStoreConfig(path="lake"), tmp_path)
    sqlite = config(SqliteOnlineStoreConfig(path=str(tmp_path / "online.db")), tmp_path)
    theirs = SqliteOnlineStore(), sqlite
    rows = [(key(i), values(i), NOON + timedelta(seconds=i), NOON) for i in range(20)]
    done: list[int] = []
    for store, of in (ours, theirs):
        store.update(of, [], [drivers], [], [], partial=False)
        store.online_write_batch(of, drivers, rows, done.append)
    assert done[0] == 20
    for wanted in (None, ["text", "i64"]):
        asked = [key(i) for i in (3, 0, 99, 4, 19, 3)]
        got = ours[0].online_read(ours[1], drivers, asked, wanted)
        expected = theirs[0].online_read(theirs[1], drivers, asked, wanted)
        for mine, other in zip(got, expected, strict=True):
            if other == (None, None):
                assert mine == (None, None)
                continue
            assert mine[0] is not None
            assert mine[0].replace(tzinfo=None) == other[0].replace(tzinfo=None)
            names = TYPES if wanted is None else wanted  # SQLite answers all of them
            assert mine[1] == {name: other[1][name] for name in names}
    for store, of in (ours, theirs):
        store.teardown(of, [drivers], [])
    assert nb.connect(tmp_path / "lake").tables() == []


@pytest.mark.parametrize("is_full", [False, True])
def test_responses_equal_those_that_feast_makes(tmp_path: Path, is_full: bool) -> None:
    """Feast makes a response from the rows of ``online_read``, value by value."""
    drivers, riders = view(), view("riders", n=Int64, map_of=Map)
    store, of = NimbleOnlineStore(), config(NimbleOnlineStoreConfig(path="lake"), tmp_path)
    store.update(of, [], [drivers, riders], [], [], partial=False)
    rows = [(key(i), values(i), NOON + timedelta(microseconds=i), NOON) for i in range(12)]
    store.online_write_batch(of, drivers, rows, None)
    nested = Value(map_val={"val": {"a": Value(int64_val=7), "b": Value()}})
    others = [(key(i), {"n": Value(int64_val=-i), "map_of": nested}, NOON, None) for i in (0, 5)]
    store.online_write_batch(of, riders, others, None)
    wanted = [(drivers, [*TYPES]), (riders, ["map_of", "n"])]
    methods = [store._read_features_per_fv, partial(OnlineStore._read_features_per_fv, store)]
    for asked in ([3, 0, 99, 4, 11, 3, -5], [99], [*range(40)]):
        entities = {"driver_id": [Value(int64_val=k) for k in asked]}
        made = []
        for read_features in methods:
            response = GetOnlineFeaturesResponse()
            read_features(of, wanted, entities, {"driver": "driver_id"}, response, is_full, True)
            made.append(response)
        assert made[0] == made[1]
        assert len(made[0].results) == len(TYPES) + 2
        assert all(len(vector.values) == len(asked) for vector in made[0].results)


def test_features_beyond_their_time_to_live(tmp_path: Path) -> None:
    """Feast decides about them, from the event times that the online store returns."""
    drivers = view(n=Int64)
    driver = Entity(name="driver", join_keys=["driver_id"], value_type=ValueType.INT64)
    now = datetime.now(UTC).replace(microsecond=0)
    times = {1: now, 2: now - timedelta(hours=23), 3: now - timedelta(days=400)}
    rows = [(key(k), {"n": Value(int64_val=k)}, time, None) for k, time in times.items()]
    answers = []
    for name, online in (
        ("theirs", SqliteOnlineStoreConfig(path=str(tmp_path / "online.db"))),
        ("ours", NimbleOnlineStoreConfig(path=str(tmp_path / "lake"))),
    ):
        store = FeatureStore(config=config(online, tmp_path, name))
        store.apply([driver, drivers])
        store._get_provider().online_write_batch(store.config, drivers, rows, None)
        for asked in ([1, 2, 3, 4], [*range(20)]):
            response = store.get_online_features(
                features=["drivers:n"], entity_rows=[{"driver_id": k} for k in asked]
            ).proto
            answers.append(response.results)
            at = list(response.metadata.feature_names.val).index("n")
            shown = [time.ToDatetime(UTC) for time in response.results[at].event_timestamps]
            epoch = datetime(1970, 1, 1, tzinfo=UTC)
            assert shown == [times.get(k, epoch) for k in asked]
    assert answers[:2] == answers[2:]


def test_older_rows_do_not_replace_newer_ones(tmp_path: Path) -> None:
    drivers = view(n=Int64)
    store, of = NimbleOnlineStore(), config(NimbleOnlineStoreConfig(path="lake"), tmp_path)
    store.update(of, [], [drivers], [], [], partial=False)

    def write(*rows: tuple[int, int, int]) -> None:
        batch = [
            (key(k), {"n": Value(int64_val=n)}, (NOON + timedelta(seconds=s)), None)
            for k, n, s in rows
        ]
        store.online_write_batch(of, drivers, batch, None)

    def read(k: int) -> int | None:
        ((_, row),) = store.online_read(of, drivers, [key(k)])
        return None if row is None else int(row["n"].int64_val)

    write((1, 10, 5), (2, 20, 5), (1, 11, 3))
    assert (read(1), read(2), read(3)) == (10, 20, None)
    write((1, 12, 4), (2, 21, 5), (3, 30, 0))
    assert (read(1), read(2), read(3)) == (10, 21, 30)
    write((1, 13, 6))
    write()
    assert read(1) == 13
    with pytest.raises(nb.InvalidArgumentError, match="expected int64_val"):
        store.online_write_batch(
            of, drivers, [(key(1), {"n": Value(string_val="x")}, NOON, None)], None
        )


def test_views_change_and_servers_answer(tmp_path: Path) -> None:
    first, second = view(n=Int64), view(n=Int64, m=String)
    store, of = NimbleOnlineStore(), config(NimbleOnlineStoreConfig(path="lake"), tmp_path)
    store.update(of, [], [first], [], [], partial=False)
    store.online_write_batch(of, first, [(key(1), {"n": Value(int64_val=1)}, NOON, None)], None)
    store.update(of, [], [second], [], [], partial=False)
    row = {"n": Value(int64_val=2), "m": Value(string_val="x")}
    store.online_write_batch(of, second, [(key(2), row, NOON, None)], None)
    asked = [key(2), key(1), key(3)]
    expected = [row, {"n": Value(int64_val=1), "m": Value()}, None]
    assert [r for _, r in store.online_read(of, second, asked)] == expected
    with nb.serve(tmp_path / "lake", {"shop_drivers": "feast.shop_drivers"}) as server:
        remote = config(NimbleOnlineStoreConfig(path=server.address), tmp_path)
        reader = NimbleOnlineStore()
        assert [r for _, r in reader.online_read(remote, second, asked)] == expected
        with pytest.raises(nb.InvalidArgumentError, match="a server only reads"):
            reader.online_write_batch(remote, second, [(key(2), row, NOON, None)], None)
    with pytest.raises(nb.InvalidArgumentError, match="another type"):
        store.update(of, [], [view(n=String)], [], [], partial=False)
    store.update(of, [second], [], [], [], partial=False)
    assert nb.connect(tmp_path / "lake").tables() == []


def lake_config(path: Path, project: str = "shop") -> RepoConfig:
    online = NimbleOnlineStoreConfig(path="lake", refresh_seconds=0.0)
    return config(online, path, project)


def write(
    store: NimbleOnlineStore,
    of: RepoConfig,
    to: FeatureView,
    k: int,
    hours: int = 0,
    **features: Any,
) -> None:
    row = {
        name: Value(string_val=item) if isinstance(item, str) else Value(int64_val=item)
        for name, item in features.items()
    }
    store.online_write_batch(of, to, [(key(k), row, NOON + timedelta(hours=hours), None)], None)


def read(store: NimbleOnlineStore, of: RepoConfig, of_view: FeatureView, k: int) -> Any:
    """The values of an entity, read as one of a few and as one of many."""
    few = store.online_read(of, of_view, [key(k)])[0][1]
    many = store.online_read(of, of_view, [key(k)] * 20)
    assert all(row == few for _, row in many)
    return few


def test_a_table_that_another_process_made_again(tmp_path: Path) -> None:
    """Every read and write failed until the process was started again."""
    drivers, of = view(n=Int64), lake_config(tmp_path)
    store, other = NimbleOnlineStore(), NimbleOnlineStore()

    def again(n: int) -> None:
        other.update(of, [drivers], [], [], [], partial=False)
        other.update(of, [], [drivers], [], [], partial=False)
        write(other, of, drivers, 1, n=n)

    store.update(of, [], [drivers], [], [], partial=False)
    write(store, of, drivers, 1, n=1)
    assert read(store, of, drivers, 1) == {"n": Value(int64_val=1)}
    again(2)
    assert read(store, of, drivers, 1) == {"n": Value(int64_val=2)}
    again(3)
    write(store, of, drivers, 2, n=4)
    assert read(store, of, drivers, 1) == {"n": Value(int64_val=3)}
    again(5)
    store.update(of, [], [drivers], [], [], partial=False)
    assert read(store, of, drivers, 1) == {"n": Value(int64_val=5)}
    other.teardown(of, [drivers], [])
    with pytest.raises(nb.NimbleError, match=r"feast\.shop_drivers"):
        read(store, of, drivers, 1)


@pytest.mark.parametrize("first", ["create", "columns"])
def test_processes_update_at_once(tmp_path: Path, first: str) -> None:
    of = lake_config(tmp_path)
    names = [f"v{i}" for i in range(3)]
    if first == "columns":
        old = [view(name, n=Int64) for name in names]
        NimbleOnlineStore().update(of, [], old, [], [], partial=False)
    views = [view(name, n=Int64, m=Int64) for name in names]

    def update(_: int) -> None:
        NimbleOnlineStore().update(of, [], views, [], [], partial=False)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(update, range(4)))
    lake = nb.connect(tmp_path / "lake")
    assert sorted(lake.tables("feast")) == [f"feast.shop_{name}" for name in names]
    for name in names:
        assert {"n", "m"} < {*lake.table(f"feast.shop_{name}").schema.names}


def test_views_never_share_a_table(tmp_path: Path) -> None:
    pairs = [
        ("a", "b_c"), ("a_b", "c"), ("a", "_b_c"), ("a_", "b_c"), ("a", "b.c"), ("a", "b%2Ec"),
        ("a", "b/c"), ("a", "b c "), ("a", "b c"), ("a", ".."), ("a", "b\nc"), ("a", "\u00fc"),
    ]  # fmt: skip
    store = NimbleOnlineStore()
    for number, (project, name) in enumerate(pairs):
        of, made = lake_config(tmp_path, project), view(name, n=Int64)
        for _ in range(2):
            store.update(of, [], [made], [], [], partial=False)
        assert read(store, of, made, 1) is None
        write(store, of, made, 1, n=number)
    lake = nb.connect(tmp_path / "lake")
    assert len(lake.tables("feast")) == len(pairs)
    assert "feast.a__b_c" in lake.tables("feast")
    for number, (project, name) in enumerate(pairs):
        of, made = lake_config(tmp_path, project), view(name, n=Int64)
        assert read(store, of, made, 1) == {"n": Value(int64_val=number)}
        store.teardown(of, [made], [])
    assert nb.connect(tmp_path / "lake").tables() == []


def test_a_row_has_the_features_of_one_event(tmp_path: Path) -> None:
    """Features that a view lacked kept the values of an older event."""
    both, one, of = view(n=Int64, m=Int64), view(n=Int64), lake_config(tmp_path)
    store = NimbleOnlineStore()
    store.update(of, [], [both], [], [], partial=False)
    write(store, of, both, 1, n=1, m=1)
    write(store, of, one, 1, hours=-1, n=0)  # an older event changes nothing
    assert read(store, of, both, 1) == {"n": Value(int64_val=1), "m": Value(int64_val=1)}
    write(store, of, one, 1, hours=1, n=2)
    assert read(store, of, both, 1) == {"n": Value(int64_val=2), "m": Value()}
    null = {"n": Value(null_val=Null.Value("NULL")), "m": Value(int64_val=3)}
    store.online_write_batch(of, both, [(key(1), null, NOON + timedelta(hours=2), None)], None)
    assert read(store, of, both, 1) == {"n": Value(), "m": Value(int64_val=3)}
