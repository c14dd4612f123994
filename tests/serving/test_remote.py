"""Tables of a server answer as the tables that it serves."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import json
import random
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
import redis

import nimblepy as nb

COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "b": (pa.bool_(), [True, False]),
    "i8": (pa.int8(), [-128, 0, 127]),
    "u64": (pa.uint64(), [0, 2**64 - 1]),
    "f": (pa.float32(), [0.5, -0.0, float("inf")]),
    "d": (pa.float64(), [0.1, 1e300, -1e-5]),
    "n": (pa.decimal128(20, 3), [Decimal("-1.500"), Decimal("12345678901234567.001")]),
    "hundreds": (pa.decimal128(9, -2), [Decimal("1200"), Decimal("-300"), Decimal("0")]),
    "day": (pa.date32(), [datetime.date(1, 1, 1), datetime.date(2024, 5, 1)]),
    "t": (pa.time64("us"), [datetime.time(23, 59, 59, 1), datetime.time(0)]),
    "at": (pa.timestamp("us", tz="UTC"), [datetime.datetime(1969, 1, 2, tzinfo=datetime.UTC)]),
    "ns": (pa.timestamp("ns"), [datetime.datetime(2024, 5, 1, 1, 2, 3, 4)]),
    "took": (pa.duration("ms"), [datetime.timedelta(milliseconds=-5)]),
    "text": (pa.string(), ["", "a:b", "x\\", "\\N", "é\0", "-", "+"]),
    "large": (pa.large_string(), ["l" * 300, ""]),
    "blob": (pa.binary(), [b"", b"\0\xff:"]),
    "fixed": (pa.binary(3), [b"abc"]),
    "id": (pa.uuid(), [uuid.UUID(int=7).bytes]),
    "tags": (pa.list_(pa.string()), [[], ["a", None]]),
    "vector": (pa.list_(pa.float32(), 2), [[1.0, 2.0]]),
    "place": (pa.struct([("x", pa.int64()), ("y", pa.string())]), [{"x": 1, "y": None}]),
    "map": (pa.map_(pa.string(), pa.int32()), [[], [("k", 1)]]),
}


def some_rows(
    ids: range,
    rng: random.Random,
    types: dict[str, tuple[pa.DataType, list[Any]]] = COLUMNS,
) -> pa.Table:
    def column(type: pa.DataType, values: list[Any]) -> pa.Array:
        return pa.array([rng.choice([None, *values]) for _ in ids], type)

    names = ["k", *types]
    fields = [pa.field("k", pa.int64(), nullable=False)]
    fields += [pa.field(name, type) for name, (type, _) in types.items()]
    arrays = [pa.array(ids, pa.int64()), *(column(*of) for of in types.values())]
    assert len(names) == len(fields)
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> nb.Dataset:
    path = tmp_path_factory.mktemp("files")
    rng = random.Random(1)
    for part in range(3):
        rows = some_rows(range(part, 2500, 3), rng)
        nb.write(rows, path / f"{part}.nimble", cluster_by=["k"])
    return nb.open_dataset(path)


@pytest.fixture(scope="module")
def remote(dataset: nb.Dataset) -> Iterator[nb.RemoteTable]:
    with nb.serve(dataset, "t") as server, nb.connect(server.address) as lake:
        assert lake.tables() == ["t"]
        yield lake.table("t")


def test_all_types_come_as_they_are(dataset: nb.Dataset, remote: nb.RemoteTable) -> None:
    assert remote.schema.equals(dataset.schema)
    assert remote.num_rows == dataset.num_rows == 2500
    assert remote.cluster_by == dataset.cluster_by
    assert remote.range().equals(dataset.range())
    for k in (-1, 0, 1, 1234, 2499, 2500, 2**63 - 1):
        assert repr(remote.get(k)) == repr(dataset.get(k))
        assert remote.get(k, ["text", "id"], default={}) == dataset.get(
            k, ["text", "id"], default={}
        )


def documented(value: Any, type: pa.DataType) -> bytes:
    """The text of a value in the commands of Redis."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, Decimal):
        return format(value, "f").encode()
    if isinstance(value, datetime.timedelta):
        return str(value // datetime.timedelta(milliseconds=1)).encode()
    if isinstance(value, datetime.time):
        return value.isoformat("microseconds").encode()
    if isinstance(value, datetime.datetime):
        text = value.replace(tzinfo=None).isoformat(timespec="microseconds")
        # The nanoseconds of the values below are whole microseconds.
        return (text + ("Z" if type.tz else "000" if type.unit == "ns" else "")).encode()
    if isinstance(value, (bool, list, dict)):
        plain = dict(value) if pa.types.is_map(type) else value
        return json.dumps(plain, separators=(",", ":")).encode()
    return str(value).encode()


def test_texts_of_all_types(tmp_path: Path) -> None:
    types = {**COLUMNS, "wide": (pa.decimal256(50, 3), [Decimal("-0.001"), Decimal(10) ** 46])}
    rows = some_rows(range(80), random.Random(7), types)
    nb.write(rows, tmp_path / "t.nimble", cluster_by=["k"])
    seen: dict[str, set[bytes]] = {name: set() for name in types}
    with (
        nb.open(tmp_path / "t.nimble") as local,
        nb.serve(tmp_path / "t.nimble") as server,
        redis.Redis(port=server.port) as client,
    ):
        for k in range(80):
            row = local.get(k)
            assert row is not None
            expected = {
                name.encode(): documented(value, rows.schema.field(name).type)
                for name, value in row.items()
                if value is not None
            }
            assert client.hgetall(f"t:{k}") == expected
            for name in types:
                seen[name] |= {expected.get(name.encode(), b"null")}
    assert all(len(seen[name]) == len(values) + 1 for name, (_, values) in types.items())
    assert seen["hundreds"] == {b"1200", b"-300", b"0", b"null"}
    assert seen["ns"] == {b"2024-05-01T01:02:03.000004000", b"null"}
    assert seen["took"] == {b"-5", b"null"}
    assert seen["map"] == {b"{}", b'{"k":1}', b"null"}
    assert seen["u64"] == {b"0", b"18446744073709551615", b"null"}


def test_lookups_equal_local_ones(dataset: nb.Dataset, remote: nb.RemoteTable) -> None:
    rng = random.Random(2)
    for count in (0, 1, 50, 3000):
        keys = [rng.randrange(-50, 2600) for _ in range(count)]
        for probe in (None, "row"):
            for missing in ("drop", "null"):
                columns = rng.sample(["k", *COLUMNS], 4)
                asked = {"columns": columns, "probe_row": probe, "missing": missing}
                assert remote.lookup(keys, **asked).equals(dataset.lookup(keys, **asked))
        assert remote.count(keys).equals(dataset.count(keys))
        assert remote.contains(keys).equals(dataset.contains(keys))
    given = remote.lookup((key for key in (1, 9999, 3)), columns=["k"], missing="null")
    assert given["k"].to_pylist() == [1, None, 3]
    # A value that the column cannot have, and nulls, match nothing.
    keys = [2**70, 5, None]
    assert remote.lookup(keys, probe_row="p").equals(dataset.lookup(keys, probe_row="p"))
    with pytest.raises(nb.InvalidArgumentError):
        remote.get("x")
    with pytest.raises(nb.InvalidArgumentError, match="unknown column 'nothing'"):
        remote.lookup([1], columns=["nothing"])


def test_ranges_equal_local_ones(dataset: nb.Dataset, remote: nb.RemoteTable) -> None:
    rng = random.Random(3)
    for _ in range(40):
        lower, upper = (rng.choice([None, rng.randrange(-10, 2600), 7.5]) for _ in range(2))
        asked: dict[str, Any] = {
            "inclusive": rng.choice(["[)", "[]", "()", "(]"]),
            "limit": rng.choice([None, 0, 1, 17, 1500]),
            "reverse": rng.random() < 0.5,
            "columns": rng.choice([None, ["k"], ["tags", "k", "text"]]),
        }
        assert remote.range(lower, upper, **asked).equals(dataset.range(lower, upper, **asked))
    page = remote.range(limit=10)
    next_page = remote.range(after=page.slice(9).to_pylist()[0], limit=5, columns=["k"])
    assert next_page["k"].to_pylist() == [10, 11, 12, 13, 14]


@pytest.mark.parametrize("name", [n for n, (t, _) in COLUMNS.items() if not pa.types.is_nested(t)])
def test_keys_of_all_types(tmp_path: Path, name: str) -> None:
    type, values = COLUMNS[name]
    (tmp_path / "d").mkdir()
    keys = [*values, None]
    for part in range(2):
        rows = pa.table({name: pa.array(keys, type), "row": list(range(len(keys)))})
        nb.write(rows, tmp_path / "d" / f"{part}.nimble", cluster_by=[name, "row"])
    with (
        nb.open_dataset(tmp_path / "d") as local,
        nb.serve(local, "t") as server,
        nb.connect(server.address) as lake,
    ):
        remote = lake.table("t")
        for key in pa.array(keys, type).to_pylist():
            assert remote.prefix(key).equals(local.prefix(key)), key
            if key is not None:
                assert remote.range(key, key, inclusive="[]").equals(
                    local.range(key, key, inclusive="[]")
                )
                assert remote.range((key, 1), None).equals(local.range((key, 1), None))
        if pa.types.is_string(type):
            for text in ("", "a", "x"):
                prefix = nb.starts_with(text)
                assert remote.prefix(prefix).equals(local.prefix(prefix))


@pytest.mark.parametrize(
    ("type", "values"),
    [
        (pa.date32(), [2932896, 2932897, -719163, -1000000, 2**31 - 1, -(2**31)]),
        (pa.date64(), [2932897 * 86_400_000, -1000000 * 86_400_000]),
        (pa.timestamp("s"), [2932897 * 86400, -(2**62), 2**62]),
        (pa.timestamp("us", "UTC"), [2932897 * 86400 * 10**6 + 5, -1000000 * 86400 * 10**6 - 5]),
    ],
)
def test_years_outside_of_python_are_keys(
    tmp_path: Path, type: pa.DataType, values: list[int]
) -> None:
    """Texts of years beyond 9999 and before 0 were refused."""
    width = pa.int32() if type.bit_width == 32 else pa.int64()
    keys = pa.array([0, *values], width).view(type)
    path = tmp_path / "t.nimble"
    nb.write(pa.table({"k": keys, "row": range(len(keys))}), path, cluster_by=["k"])
    with nb.open(path) as local, nb.serve(local) as server, nb.connect(server.address) as lake:
        remote = lake.table("t")
        for i, key in enumerate(keys):
            one = keys.slice(i, 1)
            for columns in (["row"], ["k"]):
                rows = remote.lookup(one, columns=columns)
                assert rows.equals(local.lookup(one, columns=columns))
            assert rows.num_rows == 1
            assert remote.prefix(key).equals(local.prefix(key))
            assert remote.range(key).equals(local.range(key))
            assert remote.range(None, key, reverse=True).equals(
                local.range(None, key, reverse=True)
            )
            page = remote.page(upper=key, limit=1, inclusive="[]")
            assert page.rows.equals(local.page(upper=key, limit=1, inclusive="[]").rows)


def test_no_row_has_a_date_with_a_time(tmp_path: Path) -> None:
    """Its text was the whole day, which is another key."""
    days = pa.array([0, 86_400_000], pa.int64()).view(pa.date64())
    nb.write(pa.table({"k": days}), tmp_path / "t.nimble", cluster_by=["k"])
    odd = pa.array([86_400_001, 0], pa.int64()).view(pa.date64())
    with (
        nb.serve(tmp_path / "t.nimble") as server,
        nb.connect(server.address) as lake,
        nb.open(tmp_path / "t.nimble") as local,
    ):
        remote = lake.table("t")
        assert remote.lookup(odd).equals(local.lookup(odd))
        assert remote.count(odd).to_pylist() == local.count(odd).to_pylist() == [0, 1]
        assert remote.get(odd[0]) is local.get(odd[0]) is None
        assert remote.prefix(odd[0]).equals(local.prefix(odd[0]))
        with pytest.raises(nb.InvalidArgumentError, match="whole day"):
            remote.range(lower=odd[0])


def test_rows_without_columns(dataset: nb.Dataset, remote: nb.RemoteTable) -> None:
    assert remote.get(1, columns=[]) == dataset.get(1, columns=[]) == {}
    assert remote.get(-1, columns=[]) is dataset.get(-1, columns=[]) is None
    for missing in ("drop", "null"):
        asked: dict[str, Any] = {"columns": [], "missing": missing}
        assert remote.lookup([1, -1, 2], **asked).shape == dataset.lookup([1, -1, 2], **asked).shape
        asked["probe_row"] = "p"
        assert remote.lookup([1, -1, 2], **asked).equals(dataset.lookup([1, -1, 2], **asked))
    assert remote.range(columns=[], limit=7).shape == (7, 0)
    assert remote.page(columns=[], limit=7).rows.shape == (7, 0)


def pages_of(table: Any, **asked: Any) -> pa.Table:
    parts, token = [], None
    while True:
        page = table.page(token=token, **asked)
        assert not page.moved
        parts.append(page.rows)
        if page.next is None:
            return pa.concat_tables(parts)
        token = page.next


@pytest.fixture(scope="module")
def strict(dataset: nb.Dataset) -> Iterator[nb.RemoteTable]:
    """The dataset behind limits that most calls exceed."""
    with (
        nb.serve(dataset, "t", max_keys=300, max_rows=100, max_reply_bytes=30_000) as server,
        nb.connect(server.address) as lake,
    ):
        yield lake.table("t")


def test_calls_above_the_limits_are_cut_in_parts(
    dataset: nb.Dataset, strict: nb.RemoteTable
) -> None:
    """They were answered with -TOOBIG, which is about one command and not about the call."""
    rng = random.Random(4)
    for count in (1, 299, 301, 2500):
        keys = [rng.randrange(-50, 2600) for _ in range(count)]
        for missing in ("drop", "null"):
            asked: dict[str, Any] = {"columns": rng.sample(["k", *COLUMNS], 4), "missing": missing}
            assert strict.lookup(keys, **asked).equals(dataset.lookup(keys, **asked))
        assert strict.lookup(keys, probe_row="p").equals(dataset.lookup(keys, probe_row="p"))
        assert strict.count(keys).equals(dataset.count(keys))
        assert strict.lookup(keys, columns=[]).shape == dataset.lookup(keys, columns=[]).shape
    for limit in (None, 1, 101, 1500):
        for reverse in (False, True):
            asked = {"limit": limit, "reverse": reverse, "columns": rng.choice([None, [], ["k"]])}
            got, expected = strict.range(50, 2400, **asked), dataset.range(50, 2400, **asked)
            assert got.equals(expected) or (got.shape == expected.shape and not asked["columns"])
    for limit in (7, 1000):
        assert pages_of(strict, limit=limit).equals(dataset.range())
        assert pages_of(strict, lower=9, limit=limit, reverse=True, columns=["text"]).equals(
            dataset.range(9, reverse=True, columns=["text"])
        )


def test_long_keys_are_cut_by_their_bytes(tmp_path: Path) -> None:
    """A server refuses a command of more than 8 MiB, whatever the number of its keys."""
    keys = [f"{i:05}" + "x" * 5000 for i in range(3000)]
    nb.write({"k": keys[::3]}, tmp_path / "t.nimble", cluster_by=["k"])
    with nb.serve(tmp_path / "t.nimble") as server, nb.connect(server.address) as lake:
        counts = lake.table("t").count(keys)
        assert counts.to_pylist() == [1, 0, 0] * 1000


@pytest.mark.parametrize("how", ["lookup", "count", "range"])
def test_one_call_sees_one_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Parts of one call were answered from two snapshots."""
    lake = nb.connect(tmp_path / "lake", create=True)
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.int64())])
    table = lake.create_table("a.t", schema, primary_key=["id"], cluster_by=["id"])
    table.append(pa.table({"id": range(60), "v": [0] * 60}, schema=schema))
    with (
        nb.serve(lake, {"t": "a.t"}, poll=0.01, max_keys=20, max_rows=20) as server,
        nb.connect(server.address) as served,
    ):
        remote = served.table("t")
        send = remote._connection.ask
        commits = left = 2

        def commit_after_each_part(*words: Any) -> Any:
            nonlocal left
            reply = send(*words)
            if left and words[0] == "NB.AT":
                left -= 1
                number = commits - left
                rows = {"id": range(60 - number), "v": [number] * (60 - number)}
                table.delete(f"id >= {60 - number}")
                table.upsert(pa.table(rows, schema=schema))
                while remote.refresh().snapshot != table.snapshot:
                    threading.Event().wait(0.01)
            return reply

        monkeypatch.setattr(remote._connection, "ask", commit_after_each_part)

        def read() -> Any:
            if how == "count":
                return remote.count(range(60))
            return remote.lookup(range(60)) if how == "lookup" else remote.range()

        got = read()
        assert left == 0
        local = table.count(range(60)) if how == "count" else table.lookup(range(60))
        assert got.equals(local)
        commits = left = 100
        with pytest.raises(nb.StaleFileError, match="5 attempts failed"):
            read()
        assert commits - left == 5


def test_tokens_of_pages(tmp_path: Path) -> None:
    lake = nb.connect(tmp_path / "lake", create=True)
    schema = pa.schema([("k", pa.int64()), ("n", pa.int64())])
    table = lake.create_table("a.t", schema, cluster_by=["k"])
    for part in range(4):
        ks = [i % 5 for i in range(20)]
        table.append(pa.table({"k": ks, "n": range(part * 20, part * 20 + 20)}, schema=schema))
    whole = table.range()
    with (
        nb.serve(lake, {"t": "a.t", "u": "a.t"}, token="s", poll=0.01) as server,
        nb.connect(server.address, token="s") as served,
    ):
        remote = served.table("t")
        for reverse in (False, True):
            for limit in (1, 7, 16, 100):
                assert pages_of(remote, limit=limit, reverse=reverse).equals(
                    table.range(reverse=reverse)
                )
                assert pages_of(remote, prefix=3, limit=limit, reverse=reverse).equals(
                    table.prefix(3, reverse=reverse)
                )
        first = remote.page(limit=9)
        token = first.next
        assert token is not None
        swapped = token[:-1] + ("A" if token[-1] != "A" else "B")
        for bad in (swapped, token[:-4], token + "AAAA", "x", "\xe9", table.page(limit=9).next):
            with pytest.raises(nb.InvalidArgumentError, match="damaged"):
                remote.page(limit=9, token=bad)
        with pytest.raises(nb.InvalidArgumentError, match="damaged"):
            remote.page(limit=9, token="")
        for other in ({"prefix": 1}, {"lower": 1}, {"reverse": True}):
            with pytest.raises(nb.InvalidArgumentError, match="other bounds"):
                remote.page(limit=9, token=token, **other)
        table.compact()
        while remote.refresh().snapshot != table.snapshot:
            threading.Event().wait(0.01)
        second = remote.page(limit=9, token=token)
        assert second.moved
        rest = remote.page(limit=100, token=second.next)
        assert not rest.moved
        assert pa.concat_tables([first.rows, second.rows, rest.rows])["k"].equals(whole["k"])
    with (
        nb.serve(lake, {"t": "a.t"}, token="s") as server,
        nb.connect(server.address, token="s") as served,
    ):  # another process would have the same secret
        again = served.table("t").page(limit=9, token=second.next)
        assert not again.moved
        assert again.rows.equals(rest.rows.slice(0, 9))
    with (
        nb.serve(lake, {"t": "a.t"}) as server,
        nb.connect(server.address) as served,
        pytest.raises(nb.InvalidArgumentError, match="another server"),
    ):
        served.table("t").page(limit=9, token=second.next)


def test_tokens_of_another_table_or_key(tmp_path: Path) -> None:
    lake = nb.connect(tmp_path, create=True)
    schema = pa.schema([("k", pa.int32()), ("n", pa.int64())])
    table, other = (lake.create_table(f"a.{name}", schema, cluster_by=["k"]) for name in "to")
    rows = pa.table({"k": [i % 4 for i in range(20)], "n": range(20)}, schema=schema)
    table.append(rows)
    other.append(rows)
    with (
        nb.serve(lake, {"t": "a.t", "o": "a.o", "again": "a.t"}, poll=60) as server,
        nb.connect(server.address) as served,
    ):
        remote = served.table("t")
        first = remote.page(limit=7)
        with pytest.raises(nb.InvalidArgumentError, match="belongs to another table"):
            served.table("o").page(limit=7, token=first.next)
        rest = remote.page(token=first.next).rows
        assert served.table("again").page(token=first.next).rows.equals(rest)
        with table.alter() as change:
            change.widen("k", pa.int64())
        table.append(pa.table({"k": [2**40], "n": [20]}))
        table.compact()
        server._follower.poll()
        page = remote.page(token=first.next)
        assert page.moved
        assert page.rows["k"].to_pylist() == [*rest["k"].to_pylist(), 2**40]
        with table.alter() as change:
            change.rename_column("k", "key")
        server._follower.poll()
        with pytest.raises(nb.InvalidArgumentError, match="belongs to another table"):
            remote.page(token=first.next)
        lake.drop_table("a.t")
        lake.create_table("a.t", schema, cluster_by=["k"]).append(rows)
        server._follower.poll()  # a table of the same name and columns, but another table
        with pytest.raises(nb.InvalidArgumentError, match="belongs to another table"):
            remote.page(token=first.next)


def test_pages_go_on_after_their_snapshot_has_expired(tmp_path: Path) -> None:
    lake = nb.connect(tmp_path, create=True)
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.int64())])
    table = lake.create_table("a.t", schema, primary_key=["id"], cluster_by=["id"])
    for part in range(3):
        table.append(pa.table({"id": range(part, 90, 3), "v": [0] * 30}, schema=schema))
    files = set(tmp_path.rglob("data-*.nimble"))
    old, before = table.snapshot, table.range()
    with (
        nb.serve(lake, {"t": "a.t"}, poll=60) as server,
        nb.connect(server.address) as served,
    ):
        remote = served.table("t")
        first = remote.page(limit=40)
        table.delete("id % 2 = 1")
        table.upsert(pa.table({"id": range(0, 91, 2), "v": [1] * 46}, schema=schema))
        table.compact()
        assert table.expire(keep=1).files
        assert not any(path.exists() for path in files)
        assert remote.range(accept="raw").equals(before)
        assert remote.range().equals(before)
        page = remote.page(limit=40, token=first.next)
        assert not page.moved
        assert page.rows.equals(before.slice(40, 40))
        server._follower.poll()
        assert server.stats()["tables"]["t"]["snapshot"] == table.snapshot != old
        page = remote.page(limit=40, token=first.next)
        assert page.moved
        assert page.rows.equals(table.range(40))
        assert page.next is None
        deadline = time.monotonic() + 20
        while server.stats()["files_open"] > 1:  # the removed files
            assert time.monotonic() < deadline
            time.sleep(0.02)


@pytest.mark.damage
@pytest.mark.parametrize("part", ["block", "head", "footer"])
def test_a_flipped_bit_on_disk(tmp_path: Path, part: str) -> None:
    """Readers get an error that names the file, or the right rows."""
    rng = random.Random(9)
    rows = pa.table({"k": range(3000), "v": [f"text {rng.random()}" for _ in range(3000)]})
    lake = nb.connect(tmp_path, create=True)
    table = lake.create_table("a.t", rows, cluster_by=["k"])
    lake.create_table("a.o", rows.slice(0, 10), cluster_by=["k"])
    path = Path(table.location.removeprefix("file://"), "data")
    (path,) = path.iterdir()
    good = path.read_bytes()
    errors: list[str] = []
    places = {
        "block": range(64, len(good) * 3 // 4),
        "head": range(64),
        "footer": range(len(good) - 600, len(good)),
    }
    for _ in range(8):
        damaged = bytearray(good)
        damaged[rng.choice(places[part])] ^= 1 << rng.randrange(8)
        (tmp_path / "new").write_bytes(damaged)
        (tmp_path / "new").rename(path)
        with nb.serve(tmp_path, {"t": "a.t", "o": "a.o"}) as server:
            with redis.Redis(port=server.port) as client:
                try:
                    client.execute_command("NB.RANGE", "t", "-", "+")
                except redis.ResponseError as error:
                    errors.append(str(error))
                assert client.hget("o:3", "k") == b"3"
            with nb.connect(server.address) as served:
                for accept in ("arrow", "raw"):
                    with contextlib.suppress(nb.CorruptFileError):
                        assert served.table("t").range(accept=accept).equals(rows)
                assert served.table("o").range().equals(rows.slice(0, 10))
    assert part == "head" or len(errors) == 8
    assert all(e.startswith("CORRUPT") and path.name in e for e in errors)


def test_tables_and_new_snapshots(tmp_path: Path) -> None:
    lake = nb.connect(tmp_path / "lake", create=True)
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])
    table = lake.create_table("a.t", schema, primary_key=["id"], cluster_by=["v"])
    table.append(pa.table({"id": [1, 2, 3], "v": ["x", "y", None]}, schema=schema))
    with nb.serve(lake, {"t": "a.t"}, poll=0.02) as server, nb.connect(server.address) as served:
        remote = served.table("t")
        assert remote.snapshot == table.snapshot
        assert remote.schema.equals(table.schema)
        assert remote.get(2) == {"id": 2, "v": "y"}
        assert remote.range().equals(table.range())
        assert remote.prefix("x").equals(table.prefix("x"))
        with table.alter() as change:
            change.add_column("w", pa.int32())
        table.upsert(pa.table({"id": [1], "v": ["z"], "w": [5]}, schema=table.schema))
        waited = threading.Event()
        older = served.table("t")  # of before or after the change of columns
        for _ in range(1000):
            if remote.refresh().snapshot == table.snapshot:
                break
            waited.wait(0.02)
        assert older.get(1, ["id", "v"]) == {"id": 1, "v": "z"}
        assert older.get(1) in ({"id": 1, "v": "z"}, {"id": 1, "v": "z", "w": 5})
        with table.alter() as change:
            change.add_column("x", pa.int32())
        table.upsert(pa.table({"id": [7], "v": ["q"], "w": [1], "x": [2]}, schema=table.schema))
        for _ in range(1000):
            if older.get(7):
                break
            waited.wait(0.02)
        assert remote.get(7) == {"id": 7, "v": "q", "w": 1, "x": 2}
        assert remote.range(columns=None).column_names == ["id", "v", "w", "x"]
        assert remote.get(1) == {"id": 1, "v": "z", "w": 5, "x": None}
        assert remote.lookup([3, 1, 9]).equals(table.lookup([3, 1, 9]))


def test_arrow_replies_are_streams(dataset: nb.Dataset) -> None:
    with (
        nb.serve(dataset, "t", max_reply_bytes=20_000) as server,
        redis.Redis(port=server.port) as client,
    ):
        reply = client.execute_command(
            "NB.MGET", "t", "AS", "ARROW", "COLS", 2, "k", "text", "KEYS", 3, 7, -1, 8
        )
        rows = pa.ipc.open_stream(reply).read_all()
        rows.validate(full=True)
        assert rows["k"].to_pylist() == [7, None, 8]
        reply = client.execute_command(
            "NB.MGET", "t", "AS", "ARROW", "MISSING", "SKIP", "KEYS", 3, 8, -1, 7
        )
        assert pa.ipc.open_stream(reply).read_all()["k"].to_pylist() == [8, 7]
        with pytest.raises(redis.ResponseError, match="TOOBIG"):
            client.execute_command("NB.RANGE", "t", "-", "+", "AS", "ARROW")
        for command in (
            "NB.MGET t AS RAW KEYS 1 1",
            "NB.MGET t ALL KEYS 1 1",
            "NB.MGET t AS ARROW ALL KEYS 1 1",
        ):
            with pytest.raises(redis.ResponseError, match=r"AS|ALL"):
                client.execute_command(*command.split())


def test_dictionaries_come_as_values_and_unions_are_refused(tmp_path: Path) -> None:
    words = pa.array(["a", None, "b", "a"]).dictionary_encode()
    nb.write(pa.table({"k": [1, 2, 3, 4], "d": words}), tmp_path / "d.nimble", cluster_by=["k"])
    with nb.serve(tmp_path / "d.nimble", "t") as server, nb.connect(server.address) as lake:
        remote = lake.table("t")
        assert remote.range()["d"].to_pylist() == ["a", None, "b", "a"]
        assert remote.lookup([3, 9, 1], missing="null")["d"].to_pylist() == ["b", None, "a"]
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    nb.write(pa.table({"k": [1], "u": union}), tmp_path / "u.nimble", cluster_by=["k"])
    with (
        nb.serve(tmp_path / "u.nimble", "t") as server,
        redis.Redis(port=server.port) as client,
        pytest.raises(redis.ResponseError, match="cannot be sent as Arrow"),
    ):
        client.execute_command("NB.MGET", "t", "AS", "ARROW", "KEYS", 1, 1)


def test_columns_beside_a_union_can_be_read(tmp_path: Path) -> None:
    union = pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [pa.array([1, 2])])
    rows = pa.table({"k": [1, 2], "u": union, "v": ["a", None]})
    nb.write(rows, tmp_path / "u.nimble", cluster_by=["k"])
    with nb.serve(tmp_path / "u.nimble", "t") as server, nb.connect(server.address) as lake:
        remote = lake.table("t")
        assert remote.schema.names == ["k", "v"]
        asked = ["v", "k"]
        assert remote.range(columns=asked).equals(rows.select(asked))
        assert remote.get(1, columns=asked) == {"v": "a", "k": 1}
        assert remote.count([1, 5]).to_pylist() == [1, 0]
        with pytest.raises(nb.InvalidArgumentError, match="cannot be sent as Arrow"):
            remote.range()


@pytest.mark.parametrize(
    ("limits", "columns"),
    [
        ({"max_rows": 100}, None),
        ({"max_reply_bytes": 2048}, None),
        ({"max_rows": 100}, ["text", "n"]),
        ({"max_rows": 100}, []),
    ],
)
def test_a_key_with_more_rows_than_one_reply(
    tmp_path: Path, limits: dict[str, int], columns: list[str] | None
) -> None:
    for part in range(2):  # the files have the same keys
        rows = {"k": [3] * 20 + [7] * 300 + [9], "n": range(part, 321 + part)}
        table = pa.table({**rows, "text": [f"{n}:" for n in rows["n"]]})
        nb.write(table, tmp_path / f"{part}.nimble", cluster_by=["k"])
    local = nb.open_dataset(tmp_path)
    with nb.serve(local, "t", **limits) as server, nb.connect(server.address) as lake:
        remote = lake.table("t")
        for keys in ([7], [9, 7, 5, 3, 7], [None, 7]):
            for asked in ({}, {"probe_row": "p"}, {"missing": "null"}):
                got = remote.lookup(keys, columns=columns, **asked)
                expected = local.lookup(keys, columns=columns, **asked)
                assert got.num_rows == expected.num_rows
                assert got.equals(expected), (keys, asked)
        assert remote.count([7, 9]).to_pylist() == [600, 2]


def test_page_tokens_of_another_file_of_the_same_name(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        nb.write({"k": range(100)}, tmp_path / folder / "t.nimble", cluster_by=["k"])
    places = [tmp_path / "a", tmp_path / "a" / "t.nimble"]
    others = [tmp_path / "b", tmp_path / "b" / "t.nimble"]
    for place, other in zip(places, others, strict=True):
        with (
            nb.serve(place, "t", token="x") as server,
            nb.serve(place, "t", token="x") as equal,
            nb.serve(other, "t", token="x") as another,
        ):
            first, same, different = (
                nb.connect(s.address, token="x").table("t") for s in (server, equal, another)
            )
            token = first.page(limit=5).next
            assert same.page(limit=5, token=token).rows["k"].to_pylist() == [5, 6, 7, 8, 9]
            with pytest.raises(nb.InvalidArgumentError, match="page token"):
                different.page(limit=5, token=token)


def test_a_row_for_after_needs_the_key(remote: nb.RemoteTable) -> None:
    with pytest.raises(nb.InvalidArgumentError, match="'k'"):
        remote.range(after={"x": 0})


@pytest.mark.parametrize(
    "options",
    [
        {"max_clients": 2**33},
        {"idle_seconds": 2**32},
        {"max_keys": 2**64},
        {"max_rows": 2**64},
        {"max_reply_bytes": 2**64},
        {"threads": 2**32},
        {"port": 65536},
        {"poll": float("inf")},
        {"poll": float("nan")},
        {"poll": 1e300},
    ],
)
def test_options_above_their_limits(dataset: nb.Dataset, options: dict[str, Any]) -> None:
    with pytest.raises(nb.InvalidArgumentError, match=next(iter(options))):
        nb.serve(dataset, "t", **options)


def test_addresses_and_tokens(dataset: nb.Dataset, tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    with nb.serve(dataset, "t", unix=path, token="secret") as server:
        assert server.address == f"nimble+unix://{path}"
        with nb.connect(server.address, token="secret") as lake:
            assert lake.table("t").get(1, ["k"]) == {"k": 1}
            with pytest.raises(nb.InvalidArgumentError, match=r"no table 'other'; .* has t$"):
                lake.table("other")
        for token in ("wrong", None):
            with pytest.raises(PermissionError):
                nb.connect(server.address, token=token).table("t")
    with pytest.raises(ConnectionError, match=r"s\.sock"):
        nb.connect(f"nimble+unix://{path}").table("t")
    for address in ("nimble://", "nimble://host", "nimble://h:x", "nimble://h:1/path"):
        with pytest.raises(nb.InvalidArgumentError, match="expected nimble://HOST:PORT"):
            nb.connect(address)
    with pytest.raises(nb.InvalidArgumentError, match="is a server"):
        nb.connect("nimble://h:1", name="x")
    with pytest.raises(nb.InvalidArgumentError, match="token"):
        nb.connect(tmp_path, token="x")


def test_server_that_restarts_is_found_again(dataset: nb.Dataset, tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    with nb.serve(dataset, "t", unix=path):
        remote = nb.connect(f"nimble+unix://{path}").table("t")
    with pytest.raises(ConnectionError):
        remote.get(1)
    with nb.serve(dataset, "t", unix=path):
        assert remote.get(1, ["k"]) == {"k": 1}


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"$5\r\nab",
        b"*3\r\n:1\r\n",
        b"?x\r\n",
        b"$9999999999999\r\n",
        b"*1\r\n" * 100,
        b":x\r\n",
        b":" + b"1" * 5000 + b"\r\n",
        b":5\r\n",
        b"+\xff\xfe\r\n",
        b"*3\r\n:1\r\n:2\r\n:3\r\n",
        b"*1\r\n$-1\r\n",
        b"*1\r\n$2\r\n\xff\xfe\r\n",
        b"HTTP/1.1 400 Bad\r\n",
    ],
)
def test_replies_that_are_broken(answer: bytes) -> None:
    """An error, and never a part of a reply taken for the whole."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):  # the client, or the test, is done
                for _ in range(2):
                    peer, _ = listener.accept()
                    with peer:
                        peer.recv(1000)
                        peer.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        lake = nb.connect(f"nimble://127.0.0.1:{listener.getsockname()[1]}", timeout=20)
        with pytest.raises(ConnectionError):
            lake.tables()


@pytest.mark.parametrize(
    "answer",
    [
        b"$5\r\nhello\r\n",
        b"*0\r\n",
        b"+\xff\xfe\r\n",
        b"*3\r\n:1\r\n:2\r\n:3\r\n",
        b"*2\r\n$2\r\n\xff\xfe\r\n$1\r\na\r\n",
        b"*4\r\n$13\r\ncluster_order\r\n*1\r\n$1\r\nx\r\n$3\r\nkey\r\n*0\r\n",
    ],
)
def test_another_program_is_a_failed_connection(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                peer, _ = listener.accept()
                with peer:
                    peer.recv(1000)
                    peer.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        lake = nb.connect(f"nimble://127.0.0.1:{listener.getsockname()[1]}", timeout=20)
        with pytest.raises(ConnectionError):
            lake.table("t")


def test_a_reply_that_nobody_read_answers_no_other_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """After an interrupt, the next command got the reply to the one before it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for number in range(2):
                peer, _ = listener.accept()
                with peer, contextlib.suppress(OSError):
                    while peer.recv(1000):
                        peer.sendall(b"*1\r\n$1\r\n%d\r\n" % number)

        threading.Thread(target=serve, daemon=True).start()
        lake = nb.connect(f"nimble://127.0.0.1:{listener.getsockname()[1]}", timeout=20)

        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr("nimblepy.serving.resp_client._Socket._read", interrupt)
            with pytest.raises(KeyboardInterrupt):
                lake.tables()
        assert lake.tables() == ["1"]
        lake.close()


def test_calls_of_many_threads_and_tasks_take_connections_of_their_own(
    dataset: nb.Dataset,
) -> None:
    with nb.serve(dataset, "t") as server, nb.connect(server.address) as lake:
        remote = lake.table("t")

        async def ask() -> None:
            async with nb.aio(remote, concurrency=8) as table:
                rows = await asyncio.gather(*(table.get(k, ["k"]) for k in range(50)))
                assert rows == [{"k": k} for k in range(50)]
                assert (await table.range(5, 9)).equals(dataset.range(5, 9))
                assert (await table.prefix(7)).equals(dataset.prefix(7))
                assert (await table.count([1, -1])).to_pylist() == [1, 0]
                assert (await table.contains([1, -1])).to_pylist() == [True, False]
                assert (await table.lookup([3, 4])).equals(dataset.lookup([3, 4]))
                assert (await table.page(limit=3)).rows.num_rows == 3
                assert await table.refresh() is False

        asyncio.run(ask())
        assert remote.get(1, ["k"]) == {"k": 1}  # a handle that was passed remains open
        assert 1 <= server.stats()["clients"] <= 9
    assert remote._connection._free == []


def test_slow_command_does_not_delay_others_of_the_handle() -> None:
    """A handle had one connection, and its commands waited for each other."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        answered = threading.Event()

        def answer(peer: socket.socket) -> None:
            with peer, contextlib.suppress(OSError):
                while sent := peer.recv(1000):
                    if b"SLOW" in sent:
                        assert answered.wait(20)
                    peer.sendall(b"+OK\r\n")

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    peer, _ = listener.accept()
                    threading.Thread(target=answer, args=(peer,), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        lake = nb.connect(f"nimble://127.0.0.1:{listener.getsockname()[1]}", timeout=20)
        slow = threading.Thread(target=lake._connection.ask, args=("SLOW",))
        slow.start()
        assert lake._connection.ask("QUICK") == "OK"
        answered.set()
        slow.join()
        lake.close()


@pytest.fixture
def evolving(tmp_path: Path) -> Iterator[tuple[nb.Table, nb.Server]]:
    table = nb.connect(tmp_path / "lake").create_table(
        "a.t", {"k": range(2000), "n": range(2000), "s": ["x"] * 2000}, primary_key="k"
    )
    with nb.serve(tmp_path / "lake", {"t": "a.t"}, poll=0.02) as server:
        yield table, server


def _wait(server: nb.Server, table: nb.Table) -> None:
    deadline = time.monotonic() + 20
    while server.stats()["swaps"] == 0 or _names(server) != table.schema.names:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _names(server: nb.Server) -> list[str]:
    with nb.connect(server.address) as lake:
        return lake.table("t").schema.names


@pytest.mark.parametrize(
    "read",
    [
        lambda t: t.get(5),
        lambda t: t.lookup([5, 7]),
        lambda t: t.lookup(iter([5, 7]), missing="null"),
        lambda t: t.range(5, 9),
        lambda t: t.range(0, 1500, **({"accept": "raw"} if isinstance(t, nb.RemoteTable) else {})),
        lambda t: t.prefix(5),
        lambda t: t.page(limit=3).rows,
        lambda t: t.count([5]),
    ],
    ids=["get", "lookup", "missing", "range", "raw", "prefix", "page", "count"],
)
def test_calls_follow_the_columns_of_the_table(
    evolving: tuple[nb.Table, nb.Server], read: Any
) -> None:
    table, server = evolving
    with nb.connect(server.address) as lake:
        remote = lake.table("t")
        assert read(remote) == read(table)
        changes: list[Any] = [
            lambda a: a.rename_column("n", "m"),
            lambda a: a.add_column("w", pa.int64(), default=7),
            lambda a: a.drop_column("m"),
            lambda a: a.rename_column("k", "key"),
        ]
        for change in changes:
            with table.alter() as alter:
                change(alter)
            _wait(server, table)
            assert read(remote) == read(table.refresh())


def test_new_columns_can_be_named_without_refresh(
    evolving: tuple[nb.Table, nb.Server],
) -> None:
    table, server = evolving
    with nb.connect(server.address) as lake:
        remote = lake.table("t")
        with table.alter() as alter:
            alter.rename_column("n", "m")
        _wait(server, table)
        assert remote.get(5, ["m"]) == {"m": 5}
        with pytest.raises(nb.InvalidArgumentError, match="unknown column 'n'"):
            remote.get(5, ["n"])


def test_arguments_are_refused_as_by_local_tables(tmp_path: Path) -> None:
    rows = {"a": ["", "b", "c"], "b": [1, 2, 3]}
    local = nb.connect(tmp_path).create_table("a.y", rows, cluster_by=["a", "b"])
    with nb.serve(tmp_path, {"y": "a.y"}) as server, nb.connect(server.address) as lake:
        remote = lake.table("y")
        assert remote.prefix([]).equals(local.prefix([]))
        assert remote.prefix([], reverse=True, limit=2).equals(
            local.prefix([], reverse=True, limit=2)
        )
        assert remote.page([]).rows.equals(local.page([]).rows)
        for table in (local, remote):
            with pytest.raises(nb.InvalidArgumentError, match="expected a list of names"):
                table.get(("b", 2), "b")  # type: ignore[arg-type]
            with pytest.raises(nb.InvalidArgumentError, match="expected a list of names"):
                table.lookup([("b", 2)], columns="b")  # type: ignore[arg-type]
            with pytest.raises(nb.InvalidArgumentError):
                table.get("b")
        # A local table finds keys of fewer columns. A server does not, and says so.
        short: list[Any] = [
            lambda: remote.lookup(["b"]),
            lambda: remote.count(["b"]),
            lambda: remote.get({"a": "b"}),
        ]
        for call in short:
            with pytest.raises(
                nb.InvalidArgumentError, match=r"got 1 of the 2 key columns a, b; .*prefix"
            ):
                call()


def test_no_keys_of_a_key_of_two_columns(tmp_path: Path) -> None:
    nb.write(pa.table({"a": [1], "b": [2]}), tmp_path / "m.nimble", cluster_by=["a", "b"])
    with nb.serve(tmp_path / "m.nimble", "m") as server:
        table = nb.connect(server.address).table("m")
        assert table.lookup([]).num_rows == 0
        assert table.contains([]).to_pylist() == table.count([]).to_pylist() == []


def test_a_lost_file_is_not_an_expired_snapshot(tmp_path: Path) -> None:
    lake = nb.connect(tmp_path / "lake", create=True)
    lake.create_table("a.t", pa.table({"id": [1]}), primary_key="id")
    (path,) = (tmp_path / "lake").rglob("data/*.nimble")
    path.unlink()
    with (
        nb.serve(tmp_path / "lake", {"t": "a.t"}) as server,
        nb.connect(server.address) as remote,
        pytest.raises(FileNotFoundError, match=f"{path.name}.*or a file is lost"),
    ):
        remote.table("t").get(1)


def test_arguments_of_local_tables(tmp_path: Path) -> None:
    lake = nb.connect(tmp_path / "lake", create=True)
    vectors = pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float32(), 2))
    rows = pa.table({"id": [1, 2, 3], "n": pa.array([2**62 + 1, None, 3]), "v": vectors})
    local = lake.create_table("a.t", rows, primary_key="id")
    with (
        nb.serve(tmp_path / "lake", {"t": "a.t"}) as server,
        nb.connect(server.address) as connected,
    ):
        remote = connected.table("t")
        for missing in ("drop", "null"):
            options: dict[str, Any] = {"missing": missing, "as_numpy": True}
            there, here = remote.lookup([3, 9, 2], **options), local.lookup([3, 9, 2], **options)
            assert repr(there) == repr(here)
        assert repr(remote.get(1, as_numpy=True)) == repr(local.get(1, as_numpy=True))
        for offset in (0, 1, 5):
            for limit in (None, 1):
                part: dict[str, Any] = {"offset": offset, "limit": limit}
                assert remote.range(1, 9, **part).equals(local.range(1, 9, **part))
                assert remote.prefix(2, **part).equals(local.prefix(2, **part))
        for call in (remote.get, remote.prefix):
            with pytest.raises(nb.InvalidArgumentError, match="t: a server does not support on="):
                call(1, on="n")
        for many in (remote.lookup, remote.count, remote.contains):
            with pytest.raises(nb.InvalidArgumentError, match="not support null_equals="):
                many([1], null_equals=True)


@pytest.mark.parametrize("max_keys", [1, 100])
def test_many_keys_of_a_server_that_takes_few(tmp_path: Path, max_keys: int) -> None:
    # A server accepts 4,096 words more than max_keys, and closes the connection otherwise.
    nb.write(pa.table({"k": range(6000)}), tmp_path / "t.nimble", cluster_by=["k"])
    keys = range(5990, 6000) if max_keys == 1 else range(6000)
    absent = range(10_000, 10_000 + 5000)
    with (
        nb.serve(tmp_path / "t.nimble", "t", max_keys=max_keys) as server,
        nb.connect(server.address) as lake,
    ):
        remote = lake.table("t")
        assert remote.lookup([*keys, *absent])["k"].to_pylist() == list(keys)
        assert pc.sum(remote.count([*absent, *keys])).as_py() == len(keys)
        assert pc.sum(remote.contains([*keys, *absent])).as_py() == len(keys)


def test_members_of_structs_are_columns(tmp_path: Path) -> None:
    inner = pa.struct([pa.field("q", pa.int64(), nullable=False), ("d", pa.date32())])
    schema = pa.schema(
        [
            pa.field("k", pa.int64(), nullable=False),
            ("s", pa.struct([("city", pa.string()), ("in", inner)])),
            pa.field("n", pa.struct([pa.field("x", pa.int8(), nullable=False)]), nullable=False),
            ("a.b", pa.string()),
        ]
    )
    rows = [
        {"k": 1, "s": {"city": "a", "in": {"q": 1, "d": None}}, "n": {"x": 1}, "a.b": "x"},
        {"k": 2, "s": None, "n": {"x": 2}, "a.b": None},
        {"k": 3, "s": {"city": None, "in": None}, "n": {"x": 3}, "a.b": "z"},
    ]
    nb.write(pa.Table.from_pylist(rows, schema), tmp_path / "t.nimble", cluster_by=["k"])
    local = nb.open(tmp_path / "t.nimble")
    with nb.serve(tmp_path / "t.nimble", "t") as server, nb.connect(server.address) as lake:
        remote = lake.table("t")
        for columns in (
            ["s.city"],
            ["s.in.q", "k", "s.in"],
            [("s", "in", "d"), "s", "a.b"],
            ["n.x", "n"],
        ):
            asked: Any = {"columns": columns}
            raw: Any = {"accept": "raw"}
            assert remote.range(**asked).equals(local.range(**asked))
            assert remote.range(**asked, **raw, limit=2).equals(local.range(**asked, limit=2))
            assert remote.prefix(2, **asked).equals(local.prefix(2, **asked))
            assert remote.range(5, 1, **asked).equals(local.range(5, 1, **asked))
            assert remote.get(1, **asked) == local.get(1, **asked)
            for missing in ("drop", "null"):
                asked |= {"missing": missing, "probe_row": "p"}
                assert remote.lookup([3, 9, 2], **asked).equals(local.lookup([3, 9, 2], **asked))
            page = remote.page(limit=2, columns=columns)
            assert page.rows.equals(local.page(limit=2, columns=columns).rows)
            page = remote.page(limit=2, columns=columns, token=page.next)
            assert page.rows.equals(local.range(3, columns=columns))
        for call in (remote.range, local.range):
            with pytest.raises(nb.InvalidArgumentError, match=r"unknown column 's\.nope'"):
                call(columns=["s.nope"])


def test_too_many_clients_are_a_failed_connection(dataset: nb.Dataset) -> None:
    with nb.serve(dataset, "t", max_clients=1) as server, nb.connect(server.address) as first:
        table = first.table("t")
        for token in (None, "x"):
            other = nb.connect(server.address, token=token)
            with pytest.raises(ConnectionError, match=r"nimble://.*: max number of clients"):
                other.tables()
        assert table.get(1, ["k"]) == {"k": 1}


def test_a_dropped_table_is_a_conflict_as_locally(tmp_path: Path) -> None:
    catalog = nb.connect(tmp_path)
    local = catalog.create_table("a.t", {"k": [1]}, primary_key="k")
    with nb.serve(tmp_path, {"t": "a.t"}, poll=0.01) as server, nb.connect(server.address) as lake:
        remote = lake.table("t")
        catalog.drop_table("a.t", purge=False)
        deadline = time.monotonic() + 20
        while lake.tables() and time.monotonic() < deadline:
            time.sleep(0.01)
        calls: list[Any] = [
            remote.refresh,
            local.refresh,
            lambda: remote.get(1),
            lambda: remote.range(),
            lambda: remote.count([1]),
            remote.page,
        ]
        for call in calls:
            with pytest.raises(nb.ConflictError, match="dropped or renamed") as error:
                call()
            assert error.value.kind == "table"
        for missing in (lambda: lake.table("t"), lambda: catalog.table("a.t")):
            with pytest.raises(nb.InvalidArgumentError, match="there is no table"):
                missing()


def test_a_reply_above_the_limits_has_a_class(dataset: nb.Dataset) -> None:
    with (
        nb.serve(dataset, "t", max_reply_bytes=1024) as server,
        nb.connect(server.address) as lake,
        pytest.raises(nb.ReplyTooLargeError, match="TOOBIG"),
    ):
        lake._connection.ask("NB.RANGE", "t", "-", "+")


def test_methods_that_servers_lack_are_named(remote: nb.RemoteTable) -> None:
    with nb.connect("nimble://127.0.0.1:1") as lake:
        for handle, name in (
            (remote, "upsert"),
            (remote, "scan"),
            (remote, "nearest"),
            (lake, "create_table"),
        ):
            with pytest.raises(AttributeError, match=rf"'{name}': .*read-only.*open the lake"):
                getattr(handle, name)
            assert not hasattr(handle, name)
