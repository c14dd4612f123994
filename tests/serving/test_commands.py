"""Commands of a server, asked by an unmodified client of Redis, compared with the tables."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import random
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pyarrow as pa
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis_servers import Connection

import nimblepy as nb

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("name", pa.string()),
        ("score", pa.float64()),
        ("small", pa.float32()),
        ("ok", pa.bool_()),
        ("born", pa.date32()),
        ("seen", pa.timestamp("us", tz="UTC")),
        ("at", pa.timestamp("us")),
        ("cents", pa.decimal128(12, 2)),
        ("blob", pa.binary()),
        ("tags", pa.list_(pa.string())),
        ("key", pa.uuid()),
    ]
)


def rows_of(ids: range, seed: int = 0) -> pa.Table:
    rng = random.Random(seed)

    def some(value: Any) -> Any:
        return None if rng.random() < 0.2 else value

    texts = ["", "a:b", "x\\y", "é\r\n\0", "plain"]
    numbers = [0.1, -0.0, 1e16, 1e-5, float("inf"), float("nan"), 123456.789]
    start = datetime.datetime(2024, 5, 1, 12)
    return pa.Table.from_pylist(
        [
            {
                "id": i,
                "name": some(rng.choice(texts)),
                "score": some(rng.choice(numbers)),
                "small": some(0.1),
                "ok": some(i % 2 == 0),
                "born": some(datetime.date(1, 1, 1) + datetime.timedelta(days=i * 997 % 700000)),
                "seen": some(
                    (start + datetime.timedelta(microseconds=i)).replace(tzinfo=datetime.UTC)
                ),
                "at": some(start - datetime.timedelta(seconds=i)),
                "cents": some(decimal.Decimal(i * 7 - 50) / 100),
                "blob": some(bytes([i % 256, 0, 13, 10])),
                "tags": some(["a", 'q"', None][: i % 4]),
                "key": some(uuid.UUID(int=i * 2**70).bytes),
            }
            for i in ids
        ],
        schema=SCHEMA,
    )


def text_of(value: Any, name: str) -> bytes | None:
    """The documented text of a value of Python."""
    import json

    if value is None:
        return None
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if name == "small":
        return b"0.1"
    if isinstance(value, bytes):
        return value
    if isinstance(value, datetime.datetime):
        shown = value.replace(tzinfo=None).isoformat(timespec="microseconds")
        return (shown + ("Z" if value.tzinfo else "")).encode()
    if isinstance(value, (list, dict)):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    return str(value).encode()


def texts_of(row: dict[str, Any]) -> dict[bytes, bytes]:
    texts = {name.encode(): text_of(value, name) for name, value in row.items()}
    return {name: text for name, text in texts.items() if text is not None}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> nb.Catalog:
    """Users in several files with deleted rows, events by user and number, and texts as keys."""
    lake = nb.connect(tmp_path_factory.mktemp("lake"), create=True)
    users = lake.create_table("shop.users", SCHEMA, primary_key=["id"], cluster_by=["id"])
    users.append(rows_of(range(0, 100)))
    users.append(rows_of(range(200, 300), 1))
    users.append(rows_of(range(50, 250, 1), 2).slice(50, 100))
    users.delete("id % 10 = 3")
    events = lake.create_table(
        "shop.events",
        pa.schema([("user", pa.string()), ("n", pa.int32()), ("v", pa.float64())]),
        cluster_by=["user", nb.SortKey("n", descending=True)],
    )
    rng = random.Random(3)
    for part in range(3):
        rows = [
            {"user": user, "n": n, "v": part + n / 10}
            for user in ("a:b", "", "c\\d", "zz")
            for n in rng.sample(range(40), 12)
        ]
        events.append(pa.Table.from_pylist(rows, schema=events.schema))
    events.delete("n = 7")
    return lake


@pytest.fixture(scope="module")
def server(lake: nb.Catalog) -> Iterator[nb.Server]:
    with nb.serve(lake, {"users": "shop.users", "events": "shop.events"}) as server:
        yield server


@pytest.fixture(params=[2, 3])
def client(server: nb.Server, request: pytest.FixtureRequest) -> Iterator[redis.Redis]:
    with redis.Redis(port=server.port, protocol=request.param) as client:
        yield client


def test_hashes_equal_get(lake: nb.Catalog, client: redis.Redis) -> None:
    users = lake.table("shop.users")
    for i in range(-2, 302):
        row = users.get(i)
        key = f"users:{i}"
        expected = {} if row is None else texts_of(row)
        assert client.hgetall(key) == expected, key
        names = ["small", "name", "nothing", "id", "tags"]
        assert client.hmget(key, names) == [expected.get(name.encode()) for name in names]
        assert client.hget(key, "born") == expected.get(b"born")
        assert client.exists(key, key, "users:999") == 2 * (row is not None)
        assert client.hexists(key, "score") == (b"score" in expected)
        assert client.hlen(key) == len(expected)
        assert set(client.hkeys(key)) == set(expected)
        assert sorted(client.hvals(key)) == sorted(expected.values())
        assert client.type(key) == (b"none" if row is None else b"hash")
        assert client.ttl(key) == (-2 if row is None else -1)


@pytest.mark.parametrize(
    "key",
    ["users:+1", "users:01", "users: 1", "users:1 ", "users:", "users:x", "users:1:2",
     "users:99999999999999999999", "users:\\q", "nothing:1", "users", ":1", "users:1\0"],
)  # fmt: skip
def test_other_texts_are_keys_that_do_not_exist(client: redis.Redis, key: str) -> None:
    assert client.hgetall(key) == {}
    assert client.exists(key) == 0


def test_keys_of_text_and_of_two_columns(tmp_path: Path) -> None:
    nb.write({"k": ["a", "é"], "v": ["x", "y"]}, tmp_path / "t.nimble", cluster_by=["k"])
    nb.write({"k": ["a"], "n": [1], "v": ["x"]}, tmp_path / "two.nimble", cluster_by=["k", "n"])
    path = str(tmp_path / "s.sock")
    with nb.serve(tmp_path / "t.nimble", unix=path), Connection(path) as client:
        for key in (b"\xff", b"\xc3", b"a\xff", b"\xed\xa0\x80", b"a\0"):
            assert client.ask("HGETALL", b"t:" + key) == b"*0\r\n"
            assert client.ask("NB.GET", "t", key) == b"$-1\r\n"
        assert client.ask("HGET", "t:é", "v") == b"$1\r\ny\r\n"
    with nb.serve(tmp_path / "two.nimble", unix=path), Connection(path) as client:
        for key, count in (("a", 1), ("a:1:2", 3), ("", 1), ("a:1:", 3)):
            assert client.ask("HGETALL", f"two:{key}") == b"*0\r\n"
            assert client.ask("EXISTS", f"two:{key}") == b":0\r\n"
            assert client.ask("NB.GET", "two", key).startswith(
                f"-ERR key '{key}' has {count} values; the key has 2".encode()
            )
        assert client.ask("HGET", "two:a:1", "v") == b"$1\r\nx\r\n"


@pytest.mark.damage
@pytest.mark.parametrize("size", [536870912, 536870913, 2**31, 2**63 - 1])
def test_a_size_above_the_limit_is_refused_at_once(server: nb.Server, size: int) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as peer:
        peer.sendall(b"*2\r\n$7\r\nHGETALL\r\n$%d\r\n" % size)
        received = b""
        while block := peer.recv(1000):
            received += block
    assert received == b"-ERR Protocol error: invalid bulk length\r\n"


def test_many_keys_keep_their_order(lake: nb.Catalog, client: redis.Redis) -> None:
    users = lake.table("shop.users")
    rng = random.Random(5)
    for count in (0, 1, 5, 200):
        ids = [rng.randrange(-5, 310) for _ in range(count)]
        got = client.execute_command(
            "NB.MGET", "users", "COLS", 2, "id", "name", "KEYS", count, *ids
        )
        rows = [users.get(i, ["id", "name"]) for i in ids]
        expected = [
            None if row is None else [text_of(value, "") for value in row.values()] for row in rows
        ]
        assert got == expected
        skipped = client.execute_command(
            "NB.MGET", "users", "MISSING", "SKIP", "COLS", 1, "id", "KEYS", count, *ids
        )
        assert skipped == [[str(row["id"]).encode()] for row in rows if row is not None]
        if count:
            assert client.execute_command("NB.COUNT", "users", *ids) == [
                int(row is not None) for row in rows
            ]
    assert client.execute_command("NB.MGET", "users", "KEYS", 2, -1, 999) == [None, None]
    assert client.execute_command("NB.MGET", "users", "MISSING", "SKIP", "KEYS", 2, -1, 999) == []
    hashes = client.execute_command("NB.HMGETALL", "users:1", "users:-1", "users:201")
    if isinstance(hashes[0], list):  # RESP2
        hashes = [dict(zip(h[::2], h[1::2], strict=True)) for h in hashes]
    assert hashes == [texts_of(users.get(1) or {}), {}, texts_of(users.get(201) or {})]


def test_the_largest_number_of_keys(lake: nb.Catalog, client: redis.Redis) -> None:
    keys = [i % 400 - 50 for i in range(10_000)]
    ids = set(lake.table("shop.users").to_table(["id"])["id"].to_pylist())
    expected = [[str(key).encode()] if key in ids else None for key in keys]
    ask = ["NB.MGET", "users", "COLS", 1, "id", "KEYS"]
    assert client.execute_command(*ask, len(keys), *keys) == expected
    counts = client.execute_command("NB.COUNT", "users", *keys)
    assert counts == [int(row is not None) for row in expected]
    missing = [str(-key) for key in range(1, 10_001)]
    assert client.execute_command(*ask, len(missing), *missing) == [None] * 10_000
    assert sum(client.execute_command("NB.EXISTS", "users", *missing)) == 0
    for command in (ask, ["NB.MGET", "users", "AS", "ARROW", "KEYS"]):
        with pytest.raises(redis.ResponseError, match="TOOBIG"):
            client.execute_command(*command, 10_001, *keys, 1)


def shown(table: pa.Table) -> list[list[bytes | None]]:
    return [[text_of(value, "") for value in row.values()] for row in table.to_pylist()]


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace(":", "\\:")


def test_prefixes_and_ranges_equal_the_table(lake: nb.Catalog, client: redis.Redis) -> None:
    events = lake.table("shop.events")
    for user in ("a:b", "", "c\\d", "zz", "none"):
        for reverse in (False, True):
            back = ["REVERSE"] if reverse else []
            for limit in (None, 0, 1, 5, 100):
                most = [] if limit is None else ["LIMIT", limit]
                prefix = escaped(user) + ":10"
                table = events.prefix((user, 10), limit=limit, reverse=reverse)
                _, got = client.execute_command("NB.PREFIX", "events", prefix, *back, *most)
                assert got == shown(table)
                for inclusive in ("[)", "[]", "()", "(]"):
                    table = events.range(
                        (user, 30), (user, 4), inclusive=inclusive, limit=limit, reverse=reverse
                    )
                    _, got = client.execute_command(
                        "NB.RANGE", "events", escaped(user) + ":30", escaped(user) + ":4",
                        "INCLUSIVE", inclusive, *back, *most,
                    )  # fmt: skip
                    assert got == shown(table), (user, reverse, limit, inclusive)
    assert client.execute_command("NB.RANGE", "events", "-", "+")[1] == shown(events.range())
    assert client.execute_command("NB.PREFIX", "events", "z", "STARTS")[1] == shown(
        events.prefix(nb.starts_with("z"))
    )


def test_pages_together_are_the_range(lake: nb.Catalog, client: redis.Redis) -> None:
    users = lake.table("shop.users")
    pages: list[Any] = []
    after: list[Any] = []
    while True:
        token, rows = client.execute_command(
            "NB.RANGE", "users", "-", "+", "LIMIT", 7, "COLS", 1, "id", *after
        )
        pages += rows
        if token is None:
            break
        after = ["AFTER", token]
    assert pages == shown(users.range(columns=["id"]))


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("NB.GET nothing 1", "NOTABLE"),
        ("NB.GET users x", "cannot be converted to column 'id'"),
        ("NB.GET users 1 COLS 1 nothing", "no column 'nothing'"),
        ("NB.GET users 1 COLS 2 id", "arguments are missing"),
        ("NB.GET users 1 COLS 2 id id", "twice"),
        ("NB.MGET users KEYS 3 1 2", "arguments are missing"),
        ("NB.MGET users WHAT 3 1 2", "unknown option"),
        ("NB.MGET users KEYS 1 1 KEYS 1 2", "KEYS is given twice"),
        ("NB.GET users 1 LIMIT 3", "unknown option 'LIMIT' of NB.GET"),
        ("NB.RANGE users - + INCLUSIVE x", "INCLUSIVE"),
        ("HGETALL", "wrong number"),
        ("HSET users:1 a 1", "READONLY"),
        ("DEL users:1", "READONLY"),
        ("FLUSHALL", "unknown command"),
        ("SELECT 1", "out of range"),
    ],
)
def test_errors_name_the_problem(client: redis.Redis, command: str, message: str) -> None:
    with pytest.raises(redis.ResponseError) as caught:
        client.execute_command(*command.split())
    assert message in f"{type(caught.value).__name__} {caught.value}" or (
        message == "READONLY" and isinstance(caught.value, redis.exceptions.ReadOnlyError)
    )
    assert client.ping()


def test_blocks_and_pipelines(client: redis.Redis) -> None:
    with client.pipeline(transaction=True) as block:
        for i in range(100):
            block.hget(f"users:{i % 5}", "id")
        got = block.execute()
    assert got == [None if i % 5 == 3 else str(i % 5).encode() for i in range(100)]
    with client.pipeline(transaction=False) as block:
        for i in range(5000):
            block.exists(f"users:{i % 4}")
        assert sum(block.execute()) == 3750


def test_limits_are_errors_before_any_byte(lake: nb.Catalog) -> None:
    with (
        nb.serve(lake, {"u": "shop.users"}, max_keys=10, max_rows=20, max_reply_bytes=4096) as s,
        redis.Redis(port=s.port) as client,
    ):
        for command in (
            ["NB.MGET", "u", "KEYS", 11, *range(11)],
            ["NB.RANGE", "u", "-", "+"],
            ["NB.HMGETALL", *(f"u:{i}" for i in range(11))],
        ):
            with pytest.raises(redis.ResponseError, match="TOOBIG"):
                client.execute_command(*command)
        assert len(client.execute_command("NB.RANGE", "u", "-", "+", "LIMIT", 5)[1]) == 5
        assert client.hget("u:1", "id") == b"1"


def test_limit_of_bytes_holds_for_single_rows(tmp_path: Path) -> None:
    """Commands of one row answered with any size."""
    wide = {"k": [1, 2], "v": ["x" * 5000, "x" * 500], "w": [["y" * 5000], ["y"]]}
    nb.write(wide, tmp_path / "t.nimble", cluster_by=["k"])
    with (
        nb.serve(tmp_path / "t.nimble", max_reply_bytes=2000) as server,
        redis.Redis(port=server.port) as client,
    ):
        for command in (
            ["HGETALL", "t:1"],
            ["HVALS", "t:1"],
            ["HGET", "t:1", "v"],
            ["HGET", "t:1", "w"],
            ["HMGET", "t:2", "v", "v", "v", "v"],
            ["NB.GET", "t", "1"],
            ["NB.GET", "t", "1", "COLS", "1", "w"],
            ["NB.HMGETALL", "t:2", "t:2", "t:2", "t:2"],
            ["NB.MGET", "t", "KEYS", "1", "1"],
        ):
            with pytest.raises(redis.ResponseError, match="TOOBIG a reply of more than 2000"):
                client.execute_command(*command)
        assert client.hmget("t:2", "v", "v", "k") == [b"x" * 500, b"x" * 500, b"2"]


def peak_bytes() -> int:
    """The largest resident memory of this process since it was last reset."""
    words = Path("/proc/self/status").read_text().split("VmHWM:")[1].split()
    return int(words[0]) * 1024


@pytest.mark.no_sanitizer
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
def test_refused_reply_takes_little_memory(tmp_path: Path) -> None:
    """1,024 rows were decoded before their size was compared with the limit."""
    texts = [f"{i:08}" + "x" * (1 << 20) for i in range(128)]
    nb.write({"k": range(128), "v": texts}, tmp_path / "t.nimble", cluster_by=["k"])
    del texts
    keys = list(range(60))
    with (
        nb.serve(tmp_path / "t.nimble", max_reply_bytes=2 << 20) as server,
        redis.Redis(port=server.port) as client,
    ):
        for command in (
            ["NB.RANGE", "t", "-", "+"],
            ["NB.RANGE", "t", "-", "+", "AS", "ARROW"],
            ["NB.MGET", "t", "AS", "ARROW", "KEYS", 60, *keys],
            ["NB.MGET", "t", "AS", "ARROW", "MISSING", "SKIP", "ALL", "KEYS", 60, *keys],
        ):
            Path("/proc/self/clear_refs").write_text("5")  # resets the peak
            before = peak_bytes()
            with pytest.raises(redis.ResponseError, match="TOOBIG"):
                client.execute_command(*command)
            assert peak_bytes() - before < 96 << 20, command


def test_rows_are_decoded_in_slices(tmp_path: Path) -> None:
    rng = random.Random(2)
    rows = [{"k": i, "v": rng.choice([None, "a", "b" * (i % 50)])} for i in range(3000)]
    (tmp_path / "d").mkdir()
    for i in range(3):
        nb.write(pa.Table.from_pylist(rows[i::3]), tmp_path / "d" / f"{i}.nimble", cluster_by=["k"])
    expected = shown(pa.Table.from_pylist(rows))
    with nb.serve(tmp_path / "d", "t") as server, redis.Redis(port=server.port) as client:
        for n in (1, 16, 17, 271, 272, 273, 3000):
            _, got = client.execute_command("NB.RANGE", "t", "-", "+", "LIMIT", n)
            assert got == expected[:n]
            _, got = client.execute_command("NB.RANGE", "t", "-", "+", "REVERSE", "LIMIT", n)
            assert got == expected[::-1][:n]
            keys = [rng.randrange(3000) for _ in range(n)]
            got = client.execute_command("NB.MGET", "t", "KEYS", n, *keys)
            assert got == [expected[k] for k in keys]


def test_dictionaries_unions_and_runs(tmp_path: Path) -> None:
    """A run was read past the end, and codes of a nested dictionary in another file's."""
    dictionary = pa.dictionary(pa.int8(), pa.string())
    kind = pa.struct([("d", dictionary), ("n", pa.int64())])
    runs = pa.run_end_encoded(pa.int32(), pa.int64())
    (tmp_path / "d").mkdir()
    expected = {}
    for part, words in enumerate((["a", "b", None], ["c", "a", "b"])):
        numbers = [7, 7, None]
        union = pa.UnionArray.from_dense(
            pa.array([0, 1, 0], pa.int8()),
            pa.array([0, 0, 1], pa.int32()),
            [pa.array([1, 2]), pa.array(["u"])],
            ["i", "s"],
        )
        keys = [part * 3 + i for i in range(3)]
        codes = pa.array(words).dictionary_encode().cast(dictionary)
        nested = pa.StructArray.from_arrays([codes, pa.array(keys)], fields=list(kind))
        run = pa.compute.run_end_encode(pa.array(numbers), run_end_type=pa.int32())
        assert run.type == runs
        data = pa.table({"k": keys, "d": codes, "s": nested, "u": union, "r": run})
        nb.write(data, tmp_path / "d" / f"{part}.nimble", cluster_by=["k"])
        for i, key in enumerate(keys):
            word = "null" if words[i] is None else f'"{words[i]}"'
            row = [str(key), words[i], f'{{"d":{word},"n":{key}}}', ["1", "u", "2"][i], numbers[i]]
            expected[key] = [None if v is None else str(v).encode() for v in row]
    with nb.serve(tmp_path / "d", "t") as server, redis.Redis(port=server.port) as client:
        assert client.execute_command("NB.RANGE", "t", "-", "+")[1] == list(expected.values())
        keys = [5, 0, 4, 1, 3, 2]
        got = client.execute_command("NB.MGET", "t", "KEYS", 6, *keys)
        assert got == [expected[k] for k in keys]
        for key, row in expected.items():
            assert client.hmget(f"t:{key}", "k", "d", "s", "u", "r") == row


@pytest.mark.parametrize("descending", [False, True])
def test_integer_keys_of_each_width(descending: bool, tmp_path: Path) -> None:
    texts = {"", "-", "+1", " 1", "01", "-0", "-01", "1.0", "1e3", "0x1", "12345678901234567890123"}
    for bits in (8, 16, 32, 64):
        for edge in (0, 2 ** (bits - 1), 2**bits, 10**17, 10**18):
            texts |= {str(sign * edge + d) for sign in (-1, 1) for d in (-1, 0, 1)}
    for bits in (8, 16, 32, 64):
        for signed in (True, False):
            type_ = getattr(pa, f"{'int' if signed else 'uint'}{bits}")()
            low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
            held = sorted(
                {int(t) for t in texts if t.lstrip("-").isdecimal() and low <= int(t) <= high}
            )[::2]
            path = tmp_path / f"{type_}.nimble"
            rows = pa.table({"k": pa.array(held, type_)})
            nb.write(rows, path, cluster_by=nb.SortKey("k", descending=descending))
            with nb.serve(path) as server, redis.Redis(port=server.port) as client:
                name = path.stem
                for text in sorted(texts):
                    found = text in {str(v) for v in held}
                    assert client.exists(f"{name}:{text}") == found, (name, text)
                    if found:
                        assert client.hget(f"{name}:{text}", "k") == text.encode()


def test_decimal_keys_have_one_form(tmp_path: Path) -> None:
    values = [decimal.Decimal(v) for v in ("-1.50", "0.00", "0.07", "12.30")]
    keys = pa.array(values, pa.decimal128(9, 2))
    nb.write(pa.table({"k": keys}), tmp_path / "t.nimble", cluster_by=["k"])
    with nb.serve(tmp_path / "t.nimble") as server, redis.Redis(port=server.port) as client:
        for value in values:
            assert client.hgetall(f"t:{value}") == {b"k": str(value).encode()}
        for text in ("-1.5", "-1.500", "0", "-0.00", "00.00", ".07", "0.070", "12.3", "12.30 ",
                     "+12.30", "12.", "012.30", "1e1"):  # fmt: skip
            assert client.hgetall(f"t:{text}") == {}, text


def test_a_command_of_another_version_is_changed(server: nb.Server) -> None:
    with redis.Redis(port=server.port) as client:
        version = client.execute_command("NB.META", "users")[b"version"]
        assert client.execute_command("NB.AT", version, "NB.COUNT", "users", "1")[-1] == 1
        with pytest.raises(redis.ResponseError, match=r"CHANGED version .0. of shop\.users is no"):
            client.execute_command("NB.AT", "0", "NB.COUNT", "users", "1")


def test_commands_of_a_connection_in_a_block(server: nb.Server) -> None:
    """PING and others were unknown commands inside of MULTI."""

    def ask(*commands: str) -> list[bytes]:
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as peer:
            peer.sendall("".join(f"{c}\r\n" for c in (*commands, "QUIT")).encode())
            got = b""
            while block := peer.recv(65536):
                got += block
        return got.split(b"\r\n")[:-2]

    block = ["MULTI", "PING", "ECHO a", "SELECT 0", "HGET users:1 id", "DBSIZE", "UNWATCH", "EXEC"]
    got = ask(*block)
    assert got[:7] == [b"+OK", *[b"+QUEUED"] * 6]
    assert got[7:13] == [b"*6", b"+PONG", b"$1", b"a", b"+OK", b"$1"]
    assert got[-1] == b"+OK"
    for command in ("HELLO 3", "AUTH x", "CLIENT ID"):
        got = ask("MULTI", command, "PING", "EXEC", "PING")
        assert got[1].endswith(b"is not allowed in MULTI")
        assert got[2] == b"+QUEUED"
        assert got[3].startswith(b"-EXECABORT")
        assert got[4] == b"+PONG"
    assert ask("MULTI", "WATCH a", "RESET", "PING", "EXEC")[-2:] == [
        b"+PONG",
        b"-ERR EXEC without MULTI",
    ]


def test_block_holds_a_bounded_number_of_bytes(server: nb.Server) -> None:
    """A block kept up to 1,024 commands of 8 MiB."""
    with redis.Redis(port=server.port, socket_timeout=60) as client, client.client() as one:
        assert one.execute_command("MULTI") == b"OK"
        argument = "x" * 900_000
        answers = []
        for _ in range(12):
            try:
                answers.append(one.execute_command("ECHO", argument))
            except redis.ResponseError as error:
                answers.append(str(error).split()[0].encode())
        assert answers[:9] == [b"QUEUED"] * 9
        assert answers[9:] == [b"TOOBIG", b"QUEUED", b"QUEUED"]
        with pytest.raises(redis.ResponseError, match=r"EXECABORT|discarded"):
            one.execute_command("EXEC")
        assert one.execute_command("ECHO", "a") == b"a"


def test_names_with_a_colon_are_refused(lake: nb.Catalog) -> None:
    for name in ("a:b", "a b", "a\u2003b", ""):
        with pytest.raises(nb.InvalidArgumentError, match="name"):
            nb.serve(lake, {name: "shop.users"})


def test_dataset_handles_keep_their_options(tmp_path: Path) -> None:
    """A dataset of a store was looked for on the local disk, by its name."""
    from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

    (tmp_path / "root" / "d").mkdir(parents=True)
    nb.write({"k": [1]}, tmp_path / "root" / "d" / "a.nimble", cluster_by=["k"])
    with nb.open_dataset(tmp_path / "root" / "d") as dataset, nb.serve(dataset) as server:
        assert list(server.stats()["tables"]) == ["d"]
        dataset.close()
        with redis.Redis(port=server.port) as client:
            assert client.hget("d:1", "k") == b"1"
    store = SubTreeFileSystem(str(tmp_path / "root"), LocalFileSystem())
    with (
        nb.open_dataset("d", filesystem=store) as dataset,
        pytest.raises(nb.InvalidArgumentError, match="local disk"),
    ):
        nb.serve(dataset)


_WITHOUT_MEMORY = """
import resource, select, socket, sys
import nimblepy as nb
nb.write({"k": list(range(1000))}, sys.argv[1], cluster_by=["k"])
with nb.serve(sys.argv[1], "t") as server:
    peers = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(16)]
    def reply(peer, command):
        try:
            peer.sendall(command)
            return peer.recv(100)
        except OSError:
            return b""
    assert reply(peers[0], b"PING\\r\\n") == b"+PONG\\r\\n"
    # A command of eight arguments, which is never complete.
    part = b"*9\\r\\n" + (b"$900000\\r\\n" + b"x" * 900000 + b"\\r\\n") * 8
    with open("/proc/self/statm") as f:
        used = int(f.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (12 << 20), resource.RLIM_INFINITY))
    closed = False
    for peer in peers[1:]:
        try:
            peer.sendall(part)
        except OSError:
            closed = True
    if not closed:  # the server answers nothing, so a peer is readable if it was closed
        closed = bool(select.select(peers[1:], [], [], 60)[0])
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    for peer in peers[1:]:
        peer.close()
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as peer:
        assert reply(peer, b"HGET t:7 k\\r\\n") == b"$1\\r\\n7\\r\\n"
    print("closed", closed)
"""


@pytest.mark.no_sanitizer
def test_connection_without_memory_is_closed_and_the_server_goes_on(tmp_path: Path) -> None:
    """std::bad_alloc on a thread of connections ended the process."""
    import subprocess
    import sys

    path = str(tmp_path / "t.nimble")
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_MEMORY, path], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "closed True\n"


def test_tokens(lake: nb.Catalog, tmp_path: Path) -> None:
    tables = {"users": "shop.users"}
    with pytest.raises(nb.InvalidArgumentError, match="token: expected a str, got int"):
        nb.serve(tmp_path, token=5)  # type: ignore[arg-type]
    with pytest.raises(nb.InvalidArgumentError, match="token: expected a str, got int"):
        nb.connect("nimble://127.0.0.1:1", token=5)  # type: ignore[call-overload]
    with pytest.raises(nb.InvalidArgumentError, match="token"):
        nb.serve(lake, tables, host="0.0.0.0")
    path = tmp_path / "s.sock"
    with nb.serve(lake, tables, unix=path, token="secret") as server:
        assert server.address == f"nimble+unix://{path}"
        for protocol in (2, 3):
            with redis.Redis(unix_socket_path=str(path), password="secret", protocol=protocol) as c:
                assert c.hget("users:1", "id") == b"1"
        once = Retry(NoBackoff(), 0)
        c = redis.Redis(unix_socket_path=str(path), protocol=2, retry=once)
        with c, pytest.raises(redis.AuthenticationError):
            c.hget("users:1", "id")
        c = redis.Redis(unix_socket_path=str(path), password="secreT", retry=once)
        with c, pytest.raises(redis.AuthenticationError):
            c.ping()
        with pytest.raises(OSError, match="another server"):
            nb.serve(lake, tables, unix=path)
    assert not path.exists()


OK, REFUSED = b"+OK", b"-ERR"
GREETING = b"server\r\n$6\r\nnimble"
HANDSHAKES: dict[str, list[tuple[list[str], bytes]]] = {
    "go-redis": [
        (["HELLO", "3", "AUTH", "default", "secret", "SETNAME", "app"], GREETING),
        (["CLIENT", "MAINT_NOTIFICATIONS", "ON", "moving-endpoint-type", "none"], REFUSED),
        (["CLIENT", "SETINFO", "LIB-NAME", "go-redis(,go1.24.0)"], OK),
        (["CLIENT", "SETINFO", "LIB-VER", "9.17.0"], OK),
        (["CLIENT", "GETNAME"], b"app"),
        (["SELECT", "1"], REFUSED),
    ],
    "go-redis, RESP2": [
        (["HELLO", "2"], b"-NOAUTH"),
        (["AUTH", "secret"], OK),
        (["SELECT", "0"], OK),
        (["CLIENT", "SETNAME", "app"], OK),
        (["COMMAND"], b"*0"),
    ],
    "node-redis": [
        (["HELLO", "3", "AUTH", "default", "secret", "SETNAME", "app"], GREETING),
        (["CLIENT", "SETINFO", "LIB-NAME", "node-redis"], OK),
        (["CLIENT", "SETINFO", "LIB-VER", "5.8.0"], OK),
        (["READONLY"], OK),
    ],
    "node-redis 3": [
        (["AUTH", "secret"], OK),
        (["INFO"], b"redis_version:"),  # it waits until loading:1 is not there
        (["SELECT", "0"], OK),
    ],
    "redis-py 4": [
        (["AUTH", "default", "secret"], OK),
        (["SELECT", "1"], REFUSED),
    ],
    "redis-py 5": [
        (["HELLO", "3", "AUTH", "default", "secret"], GREETING),
        (["CLIENT", "SETINFO", "LIB-NAME", "redis-py"], OK),
        (["CLIENT", "SETINFO", "LIB-VER", "5.2.1"], OK),
        (["INFO", "server"], b"redis_mode:standalone"),
    ],
}


@pytest.mark.parametrize("client", HANDSHAKES)
@pytest.mark.parametrize("at_once", [False, True])
def test_handshakes_of_clients(
    lake: nb.Catalog, tmp_path: Path, client: str, at_once: bool
) -> None:
    path = str(tmp_path / "s.sock")
    script = HANDSHAKES[client]
    with (
        nb.serve(lake, {"users": "shop.users"}, unix=path, token="secret"),
        Connection(path) as connection,
    ):
        assert connection.ask("HELLO", "3").startswith(b"-NOAUTH")
        assert connection.ask("CLIENT", "SETINFO", "LIB-VER", "1").startswith(b"-NOAUTH")
        wrong = connection.ask("HELLO", "3", "AUTH", "default", "wrong", "SETNAME", "app")
        assert wrong.startswith(b"-WRONGPASS")
        if at_once:
            for words, _ in script:
                connection.send(*words)
            replies = [connection.read() for _ in script]
        else:
            replies = [connection.ask(*words) for words, _ in script]
        for (words, expected), reply in zip(script, replies, strict=True):
            is_line = expected[:1] in b"+-*"
            assert reply.startswith(expected) if is_line else expected in reply, words
        is_resp3 = script[0][0][:2] == ["HELLO", "3"]
        assert connection.ask("HGET", "users:1", "id") == b"$1\r\n1\r\n"
        assert connection.ask("HGETALL", "users:-1") == (b"%0\r\n" if is_resp3 else b"*0\r\n")
        assert connection.ask("HGET", "users:-1", "id") == (b"_\r\n" if is_resp3 else b"$-1\r\n")


def test_idle_clients_are_disconnected(lake: nb.Catalog) -> None:
    with (
        nb.serve(lake, {"users": "shop.users"}, idle_seconds=1) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=20) as idle,
        socket.create_connection(("127.0.0.1", server.port), timeout=20) as active,
    ):
        begin = time.monotonic()
        done = threading.Event()

        def use() -> None:
            while not done.wait(0.1):
                active.sendall(b"PING\r\n")
                assert active.recv(100) == b"+PONG\r\n"

        thread = threading.Thread(target=use)
        thread.start()
        try:
            assert idle.recv(1) == b""
            assert time.monotonic() - begin >= 1
        finally:
            done.set()
            thread.join()
        active.sendall(b"HGET users:1 id\r\n")
        assert active.recv(100) == b"$1\r\n1\r\n"
        assert server.stats()["clients"] == 1


def test_commands_with_very_many_words(lake: nb.Catalog) -> None:
    """They are refused by the limits of commands, and the connection remains usable."""
    with (
        nb.serve(lake, {"users": "shop.users"}) as server,
        redis.Redis(port=server.port, single_connection_client=True) as client,
    ):
        number = client.client_id()
        many = [str(i) for i in range(20_000)]
        with pytest.raises(redis.ResponseError, match=r"^TOOBIG 20000 keys"):
            client.execute_command("NB.MGET", "users", "KEYS", 20_000, *many)
        with pytest.raises(redis.ResponseError, match=r"^TOOBIG 200000 keys"):
            client.exists(*[f"users:{i}" for i in range(200_000)])
        assert client.hmget("users:nobody", many) == [None] * 20_000
        assert client.client_id() == number


def test_clients_above_the_limit_get_an_error(lake: nb.Catalog) -> None:
    with (
        nb.serve(lake, {"users": "shop.users"}, max_clients=2) as server,
        contextlib.ExitStack() as stack,
    ):

        def connected() -> tuple[socket.socket, bytes]:
            peer = socket.create_connection(("127.0.0.1", server.port), timeout=20)
            stack.enter_context(peer)
            try:
                peer.sendall(b"PING\r\n")
                return peer, peer.recv(100)
            except ConnectionError:  # it was closed before the command was read
                return peer, b""

        peers = [connected() for _ in range(2)]
        assert [reply for _, reply in peers] == [b"+PONG\r\n"] * 2
        with pytest.raises(ConnectionError):
            nb.connect(server.address).tables()
        replies = [connected()[1] for _ in range(10)]
        assert set(replies) <= {b"-ERR max number of clients reached\r\n", b""}
        assert any(replies)
        assert server.stats()["rejected"] >= 11
        assert server.stats()["clients"] == 2
        peers.pop()[0].close()
        until = time.monotonic() + 20
        while connected()[1] != b"+PONG\r\n":
            assert time.monotonic() < until
            time.sleep(0.01)


_FORKS = """
import os, socket, sys
import nimblepy as nb
path = sys.argv[2]
server = nb.serve(sys.argv[1], "t", unix=path)

def ask():
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(60)
        peer.connect(path)
        peer.sendall(b"HGET t:7 k\\r\\n")
        return peer.recv(100)

assert ask() == b"$1\\r\\n7\\r\\n"
pid = os.fork()
if pid == 0:
    assert ask() == b"$1\\r\\n7\\r\\n"  # of the parent
    server.stop()
    sys.exit(7)  # runs destructors
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
assert os.path.exists(path)
assert ask() == b"$1\\r\\n7\\r\\n"
server.stop()
server.stop()
assert not os.path.exists(path)
"""


@pytest.mark.no_sanitizer
def test_forks_of_a_server_leave_it_alone(tmp_path: Path) -> None:
    import subprocess
    import sys

    nb.write({"k": list(range(10))}, tmp_path / "t.nimble", cluster_by=["k"])
    command = [sys.executable, "-W", "ignore", "-c", _FORKS]
    done = subprocess.run(
        [*command, str(tmp_path / "t.nimble"), str(tmp_path / "s.sock")],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_addresses_that_are_in_use(tmp_path: Path) -> None:
    nb.write({"k": [1]}, tmp_path / "t.nimble", cluster_by=["k"])
    path, other = tmp_path / "s.sock", tmp_path / "other"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        given: list[dict[str, Any]] = [
            {"port": port}, {"port": port, "unix": path},
            {"http": f"127.0.0.1:{port}", "unix": path}, {"http": f"127.0.0.1:{port}"},
        ]  # fmt: skip
        for options in given:
            with pytest.raises(OSError, match="in use") as error:
                nb.serve(tmp_path / "t.nimble", **options)
            assert error.value.filename == f"127.0.0.1:{port}"
            assert not path.exists()
    other.write_text("a file")
    with pytest.raises(OSError, match="exists and is not a socket"):
        nb.serve(tmp_path / "t.nimble", unix=other)
    assert other.read_text() == "a file"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with nb.serve(tmp_path / "t.nimble", unix=path) as server:  # replaces the dead socket
        with Connection(str(path)) as client:
            assert client.ask("HGET", "t:1", "k") == b"$1\r\n1\r\n"
        with pytest.raises(OSError, match="another server listens"):
            nb.serve(tmp_path / "t.nimble", unix=path)
        with Connection(str(path)) as client:
            assert client.ask("PING") == b"+PONG\r\n"
        server.stop()
    assert not path.exists()


@pytest.mark.sanitizer
def test_bytes_that_are_no_commands(server: nb.Server) -> None:
    """The connection gets an error or is closed, and the server goes on."""
    rng = random.Random(1)
    likely = [b"*2\r\n$7\r\nHGETALL\r\n$7\r\nusers:1\r\n", b"*", b"$-5\r\n", b"*1000000000\r\n",
              b"\r\n", b"*1\r\n", b"$4\r\nPING\r\n", b"PING\r\n", b"\0\xff", b"MULTI\r\n",
              b"EXEC\r\n", b"HELLO 3\r\n", b"NB.RANGE users - + LIMIT 3\r\n"]  # fmt: skip
    for _ in range(60):
        with socket.create_connection(("127.0.0.1", server.port)) as peer:
            peer.settimeout(10)
            peer.sendall(b"".join(rng.choices(likely, k=rng.randrange(1, 12))))
            peer.shutdown(socket.SHUT_WR)
            try:
                while peer.recv(65536):
                    pass
            except ConnectionResetError:
                pass
    with redis.Redis(port=server.port) as client:
        assert client.ping()


@pytest.mark.sanitizer
def test_commands_with_hostile_arguments(server: nb.Server) -> None:
    """Each command of a pipeline gets one reply, whatever its arguments are."""
    rng = random.Random(7)
    words = [
        *(b"NB.AT", b"NB.MGET", b"NB.GET", b"NB.COUNT", b"NB.EXISTS", b"NB.PREFIX", b"NB.RANGE"),
        *(b"NB.SCHEMA", b"NB.META", b"NB.HMGETALL", b"HGETALL", b"HMGET", b"EXISTS", b"users"),
        *(b"events", b"users:1", b"events:a\\:b:7", b"events:\\N:\\", b"AS", b"ARROW", b"RESP"),
        *(b"COLS", b"KEYS", b"ALL", b"MISSING", b"SKIP", b"NULL", b"PROBE", b"PAGE", b"AFTER"),
        *(b"LIMIT", b"REVERSE", b"STARTS", b"INCLUSIVE", b"[]", b"-", b"+", b"0", b"1", b"2"),
        *(b"18446744073709551615", b"-1", b"", b"\0", b"\xff" * 40, b"a" * 9000, b"id", b"tags"),
        *(b"cents", b"1:2", b":", b"AAAA", b"A" * 80, b"RAW", b"FILTER", b"AND", b"OR", b"TEST"),
        *(b"VALID", b"==", b"in", b"prefix", b"user", b"n", b"FILE"),
    ]
    starts = [
        *([b"NB.MGET", b"users", b"AS", b"ARROW"], [b"NB.RANGE", b"users", b"-", b"+"]),
        *([b"NB.RANGE", b"events", b"-", b"+", b"PAGE"], [b"NB.PREFIX", b"events", b"a\\:b"]),
        *([b"NB.AT", b"0123456789abcdef", b"NB.COUNT", b"users"], [b"NB.AT"], []),
        *([b"NB.RANGE", b"events", b"-", b"+", b"AS", b"RAW"], [b"NB.META", b"events", b"FILE"]),
        [b"NB.RANGE", b"events", b"-", b"+", b"FILTER", b"6", b"TEST", b"n"],
        [b"NB.PREFIX", b"users", b"1", b"FILTER", b"3", b"AND", b"1"],
    ]
    for _ in range(20):
        commands = [
            [*rng.choice(starts), *rng.choices(words, k=rng.randrange(1, 12))] for _ in range(40)
        ]
        sent = b"".join(
            b"*%d\r\n" % len(command) + b"".join(b"$%d\r\n%b\r\n" % (len(w), w) for w in command)
            for command in commands
        )
        with socket.create_connection(("127.0.0.1", server.port)) as peer:
            peer.settimeout(20)
            peer.sendall(sent)
            reader = peer.makefile("rb")
            for _ in commands:
                skip_reply(reader)
            peer.sendall(b"*1\r\n$4\r\nPING\r\n")
            assert reader.readline() == b"+PONG\r\n"


def skip_reply(reader: Any) -> None:
    """Reads one reply of RESP2."""
    line = reader.readline()
    assert line.endswith(b"\r\n"), line
    if line[:1] == b"$" and line[1:2] != b"-":
        assert len(reader.read(int(line[1:]) + 2)) == int(line[1:]) + 2
    elif line[:1] == b"*":
        for _ in range(int(line[1:])):
            skip_reply(reader)
    else:
        assert line[:1] in b"+-:$"


def test_server_reads_no_more_commands_than_it_answers(server: nb.Server) -> None:
    """Bytes of a fast pipeline of short commands piled up in memory."""
    ping = b"*1\r\n$4\r\nPING\r\n"
    before = server.stats()
    with socket.create_connection(("127.0.0.1", server.port)) as peer:

        def read_all() -> None:
            while peer.recv(1 << 20):
                pass

        reader = threading.Thread(target=read_all)
        reader.start()
        most = 0
        for _ in range(60):
            peer.sendall(ping * 5000)
            received = server.stats()["bytes_in"] - before["bytes_in"]
            answered = server.stats()["commands"] - before["commands"]
            most = max(most, received - answered * len(ping))
        peer.shutdown(socket.SHUT_WR)
        reader.join()
    assert most < 256 << 10
    assert server.stats()["commands"] - before["commands"] == 300_000


def test_command_cut_at_every_byte(server: nb.Server) -> None:
    text = b"*2\r\n$7\r\nHGETALL\r\n$7\r\nusers:1\r\n*1\r\n$4\r\nPING\r\n"
    with socket.create_connection(("127.0.0.1", server.port)) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(len(text)):
            peer.sendall(text[i : i + 1])
        got = b""
        while not got.endswith(b"+PONG\r\n"):
            got += peer.recv(65536)
        assert got.startswith(b"*")


def test_new_snapshots_are_served(tmp_path: Path) -> None:
    lake = nb.connect(tmp_path / "lake", create=True)
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.int64())])
    table = lake.create_table("a.t", schema, primary_key=["id"], cluster_by=["id"])
    ids = list(range(50))
    with (
        nb.serve(lake, {"t": "a.t"}, poll=0.02) as server,
        redis.Redis(port=server.port) as client,
    ):
        assert client.hgetall("t:1") == {}
        for version in range(5):
            table.upsert(pa.table({"id": ids, "v": [version] * 50}, schema=schema))
            until = time.monotonic() + 20
            while client.hget("t:7", "v") != str(version).encode():
                assert time.monotonic() < until
            got = client.execute_command("NB.MGET", "t", "COLS", 1, "v", "KEYS", 50, *ids)
            assert len({row[0] for row in got}) == 1  # of one snapshot
        with table.alter() as change:
            change.add_column("w", pa.string())
        until = time.monotonic() + 20
        while len(client.execute_command("NB.SCHEMA", "t")) != 3:
            assert time.monotonic() < until
        assert client.hgetall("t:7") == {b"id": b"7", b"v": b"4"}
        assert server.stats()["follow_failures"] == 0


def test_files_and_datasets(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    data = pa.table({"a": [1, 2, 3], "b": ["x", None, "z"]})
    nb.write(data, tmp_path / "d" / "one.nimble", cluster_by=["a"])
    nb.write(pa.table({"a": [4], "b": ["w"]}), tmp_path / "d" / "two.nimble", cluster_by=["a"])
    with (
        nb.serve(tmp_path / "d" / "one.nimble") as server,
        redis.Redis(port=server.port) as client,
    ):
        assert client.hgetall("one:3") == {b"a": b"3", b"b": b"z"}
        assert client.hgetall("one:2") == {b"a": b"2"}
    with nb.serve(tmp_path / "d", "both") as server, redis.Redis(port=server.port) as client:
        assert client.hgetall("both:4") == {b"a": b"4", b"b": b"w"}
        assert client.execute_command("NB.RANGE", "both", "2", "+", "COLS", 1, "a")[1] == [
            [b"2"], [b"3"], [b"4"],
        ]  # fmt: skip


@pytest.mark.parametrize("http", ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"])
def test_status_pages_for_other_machines_need_a_token(lake: str, http: str) -> None:
    with pytest.raises(nb.InvalidArgumentError, match="give a token"):
        nb.serve(lake, {"users": "shop.users"}, http=http)


@pytest.mark.parametrize("http", [":0", "x", "127.0.0.1", "::1:0", "127.0.0.1:65536", "name:1"])
def test_wrong_addresses_of_status_pages(lake: str, http: str) -> None:
    with pytest.raises(nb.InvalidArgumentError, match="http"):
        nb.serve(lake, {"users": "shop.users"}, http=http)


def test_metrics_for_other_machines_need_the_token(lake: str) -> None:
    def ask(page: str, **headers: str) -> int:
        request = Request(f"http://127.0.0.1:{server.http_port}/{page}", None, headers)
        try:
            with urlopen(request, timeout=20) as reply:
                return int(reply.status)
        except HTTPError as error:
            return error.code

    with nb.serve(lake, {"users": "shop.users"}, http="0.0.0.0:0", token="x") as server:
        assert (ask("healthz"), ask("readyz"), ask("metrics")) == (200, 200, 401)
        assert ask("metrics", Authorization="Bearer y") == 401
        assert ask("metrics", Authorization="Bearer x") == 200


def test_status_pages_of_an_ipv6_address(lake: str) -> None:
    with (
        nb.serve(lake, {"users": "shop.users"}, http="[::1]:0") as server,
        urlopen(f"http://[::1]:{server.http_port}/readyz", timeout=20) as reply,
    ):
        assert reply.status == 200


def test_status_pages(lake: nb.Catalog) -> None:
    with (
        nb.serve(lake, {"users": "shop.users"}, http="127.0.0.1:0") as server,
        redis.Redis(port=server.port) as client,
    ):
        for i in range(7):
            client.hgetall(f"users:{i}")
        base = f"http://127.0.0.1:{server.http_port}"
        assert urlopen(base + "/healthz").read() == b"ok\n"
        assert urlopen(base + "/readyz").read() == b"ready\n"
        lines = urlopen(base + "/metrics").read().decode().splitlines()
        assert 'nimble_commands_total{command="HGETALL"} 7' in lines
        assert "nimble_command_seconds_count 7" in lines
        with pytest.raises(HTTPError, match="404"):
            urlopen(base + "/other")


def test_counters_equal_what_was_sent(lake: nb.Catalog) -> None:
    def sample(lines: dict[str, str]) -> tuple[list[float], list[int]]:
        start = 'nimble_command_seconds_bucket{le="'
        found = {n: int(v) for n, v in lines.items() if n.startswith(start)}
        bounds = [float(name.removeprefix(start).removesuffix('"}')) for name in found]
        return bounds, list(found.values())

    with nb.serve(lake, {"users": "shop.users"}, http="127.0.0.1:0", poll=60) as server:

        def lines() -> dict[str, str]:
            text = urlopen(f"http://127.0.0.1:{server.http_port}/metrics").read().decode()
            shown = [line for line in text.splitlines() if not line.startswith("#")]
            return dict(line.rsplit(" ", 1) for line in shown)

        commands = [b"HGETALL users:%d" % i for i in range(20)]
        commands += [b"NB.RANGE users - +", b"HGET users:1", b"HSET users:1 a b", b"NOTHING"]
        commands += [b"NB.GET users x", b"NB.MGET users KEYS 2 1 2"]
        sent = b"".join(command + b"\r\n" for command in commands)
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as peer:
            peer.sendall(sent)
            peer.shutdown(socket.SHUT_WR)
            received = b""
            while block := peer.recv(1 << 20):
                received += block
        got = lines()
        assert got["nimble_bytes_in_total"] == str(len(sent))
        assert got["nimble_bytes_out_total"] == str(len(received))
        assert got["nimble_errors_total"] == "4"
        assert got["nimble_busy_total"] == "0"
        assert got["nimble_accepted_total"] == "1"
        counts = {
            name.split('"')[1]: int(value)
            for name, value in got.items()
            if name.startswith("nimble_commands_total") and value != "0"
        }
        assert counts == {
            "HGETALL": 20, "NB.RANGE": 1, "HGET": 1, "NB.GET": 1, "NB.MGET": 1, "other": 2
        }  # fmt: skip
        bounds, buckets = sample(got)
        assert bounds == sorted(bounds)
        assert bounds[-1] == float("inf")
        assert buckets == sorted(buckets)
        assert buckets[-1] == int(got["nimble_command_seconds_count"]) == len(commands)
        least = sum(
            lower * (now - before)
            for lower, before, now in zip(
                [0, 0, *bounds[1:-1]], [0, *buckets[:-1]], buckets, strict=True
            )
        )
        assert float(got["nimble_command_seconds_sum"]) >= least
        assert {name.partition("{")[0] for name in got} >= {"nimble_rows", "nimble_snapshot_info"}


@pytest.mark.no_sanitizer
def test_long_commands_above_the_queue_are_refused_and_counted(tmp_path: Path) -> None:
    nb.write({"k": range(100_000), "v": [1] * 100_000}, tmp_path / "t.nimble", cluster_by="k")
    nothing = b"NB.RANGE t - + FILTER 6 TEST k in 0 1 -1\r\n"  # tests every row
    with nb.serve(tmp_path / "t.nimble", "t") as server, contextlib.ExitStack() as stack:

        def connected() -> socket.socket:
            peer = socket.create_connection(("127.0.0.1", server.port), timeout=60)
            return stack.enter_context(peer)

        peers = [connected() for _ in range(2 + 256 + 40)]
        for peer in peers[:2]:  # both workers
            peer.sendall(b"MULTI\r\n" + nothing * 100 + b"EXEC\r\n")
        for peer in peers[2:]:
            peer.sendall(b"NB.PREFIX t 7 AS RESP\r\n")
        replies = [peer.recv(1000) for peer in peers[2:]]
        busy = [reply for reply in replies if reply.startswith(b"-BUSY 256 long commands")]
        expected = b"*2\r\n$-1\r\n*1\r\n*2\r\n$1\r\n7\r\n$1\r\n1\r\n"
        assert len(busy) >= 1
        assert replies.count(expected) + len(busy) == len(replies)
        stats = server.stats()
        assert (stats["busy"], stats["errors"]) == (len(busy), len(busy))
        last = peers[-1]
        last.sendall(b"NB.PREFIX t 7 AS RESP\r\n")  # the connection remains usable
        assert last.recv(1000) == expected


def test_status_pages_answer_while_the_server_is_busy(tmp_path: Path) -> None:
    nb.write({"k": range(50_000), "v": ["x" * 20] * 50_000}, tmp_path / "t.nimble", cluster_by="k")
    done = threading.Event()
    with nb.serve(tmp_path / "t.nimble", "t", http="127.0.0.1:0") as server:

        def load() -> None:
            with socket.create_connection(("127.0.0.1", server.port), timeout=20) as peer:
                while not done.is_set():
                    peer.sendall(b"NB.RANGE t - +\r\n" * 4)
                    received = 0
                    while received < 4_000_000:
                        received += len(peer.recv(1 << 20))

        threads = [threading.Thread(target=load) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            base = f"http://127.0.0.1:{server.http_port}/"
            while server.stats()["commands"] < 8:
                time.sleep(0.01)
            for _ in range(10):
                assert urlopen(base + "healthz", timeout=20).read() == b"ok\n"
                assert urlopen(base + "readyz", timeout=20).read() == b"ready\n"
                assert b"nimble_rows" in urlopen(base + "metrics", timeout=20).read()
        finally:
            done.set()
            for thread in threads:
                thread.join()


def test_long_replies_to_one_packet_all_arrive(tmp_path: Path) -> None:
    """Commands that waited for room in the output were forgotten if it was sent at once."""
    nb.write({"k": [1], "v": ["x" * 4000]}, tmp_path / "t.nimble", cluster_by=["k"])
    with (
        nb.serve(tmp_path / "t.nimble", "t") as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=20) as client,
    ):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        client.sendall(b"HGET t:1 v\r\n" * 1000)
        client.shutdown(socket.SHUT_WR)
        received = 0
        while block := client.recv(1 << 20):
            received += len(block)
        assert received == 1000 * len(b"$4000\r\n" + b"x" * 4000 + b"\r\n")


def test_replaced_files_are_read_again(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    path, other = tmp_path / "d" / "t.nimble", tmp_path / "other.nimble"
    nb.write({"k": [1], "v": [1]}, path, cluster_by=["k"])
    nb.write({"k": [1], "v": [2]}, other, cluster_by=["k"])
    assert path.stat().st_size == other.stat().st_size
    with (
        nb.serve(tmp_path / "d", "t", poll=0.02) as server,
        redis.Redis(port=server.port) as client,
    ):
        assert client.hget("t:1", "v") == b"1"
        other.rename(path)
        until = time.monotonic() + 20
        while client.hget("t:1", "v") != b"2":
            assert time.monotonic() < until
            time.sleep(0.02)


def test_members_of_structs_are_found_by_their_ids(tmp_path: Path) -> None:
    """Files without a member, or with members at other places, could not be read."""
    lake = nb.connect(tmp_path / "lake", create=True)
    place = pa.struct([("lat", pa.int32()), ("lon", pa.int64())])
    columns = [("k", pa.int64()), ("place", place), ("all", pa.list_(place)), ("v", pa.string())]
    table = lake.create_table("a.t", pa.schema(columns), primary_key=["k"], cluster_by=["k"])
    places = [{"lat": 1, "lon": 2}, None, {"lat": None, "lon": 4}]
    table.append(
        pa.table(
            {"k": [1, 2, 3], "place": places, "all": [places, None, []], "v": ["x", "y", None]},
            schema=table.schema,
        )
    )
    with table.alter() as change:
        change.move_column("place.lon", first=True)
        change.rename_column("place.lat", "north")
        change.widen("place.north", pa.int64())
        change.add_column("place.name", pa.string())
    table.append(
        pa.table(
            {"k": [4], "place": [{"lon": 5, "north": 2**40, "name": "n"}], "all": [[]], "v": ["z"]},
            schema=table.schema,
        )
    )
    with nb.serve(lake, {"t": "a.t"}) as server, redis.Redis(port=server.port) as client:
        for k in range(1, 5):
            row = table.get(k)
            assert row is not None
            assert client.hgetall(f"t:{k}") == texts_of(row)
        _, rows = client.execute_command("NB.RANGE", "t", "-", "+")
        assert rows == shown(table.range())


def test_bounds_that_no_value_reaches(tmp_path: Path) -> None:
    rows = pa.table({"k": ["+", "-", "a", "b"]})
    nb.write(rows, tmp_path / "text.nimble", cluster_by=["k"])
    nb.write(pa.table({"k": pa.array([1, 2], pa.int8())}), tmp_path / "i.nimble", cluster_by=["k"])
    with (
        nb.serve(tmp_path / "text.nimble") as server,
        redis.Redis(port=server.port) as client,
    ):
        pages, after = [], []
        while len(pages) < 10:
            token, page = client.execute_command("NB.RANGE", "text", "-", "+", "LIMIT", 1, *after)
            pages += page
            if token is None:
                break
            after = ["AFTER", token]
        assert pages == [[b"+"], [b"-"], [b"a"], [b"b"]]
    with (
        nb.serve(tmp_path / "i.nimble") as server,
        redis.Redis(port=server.port) as client,
        pytest.raises(redis.ResponseError, match="outside"),
    ):
        client.execute_command("NB.RANGE", "i", "0", "300")


def test_arrow_has_no_bits_of_other_rows(client: redis.Redis) -> None:
    first = client.execute_command("NB.RANGE", "users", "0", "7", "AS", "ARROW")[1]
    client.execute_command("NB.RANGE", "users", "-", "+")  # other rows in the same memory
    assert client.execute_command("NB.RANGE", "users", "0", "7", "AS", "ARROW")[1] == first
    record = pa.ipc.open_stream(first).read_all()
    for column in record.columns:
        validity = column.chunk(0).buffers()[0]
        if validity is not None:
            assert validity.to_pybytes()[-1] < 1 << (record.num_rows % 8)
