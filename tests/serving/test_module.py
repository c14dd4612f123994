"""The module for Redis and Valkey, compared byte for byte with the embedded server."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import redis
from redis_servers import Connection, ModuleServer, has_module, module_server, server_programs

import nimblepy as nb
from nimblepy.serving.follow import Follower
from nimblepy.serving.manifest_files import write_manifests
from nimblepy.serving.sources import open_served

PROGRAMS = server_programs()
pytestmark = [
    pytest.mark.no_sanitizer,
    pytest.mark.skipif(not has_module(), reason="nimble_redis.so was not built"),
    pytest.mark.skipif(not PROGRAMS, reason="there is no redis-server or valkey-server"),
]

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("name", pa.string()),
        ("score", pa.float64()),
        ("ok", pa.bool_()),
        ("born", pa.date32()),
        ("at", pa.timestamp("us")),
        ("cents", pa.decimal128(12, 2)),
        ("blob", pa.binary()),
        ("tags", pa.list_(pa.string())),
    ]
)
KEY = f"users:{2**63 - 1}"  # of a row that is there
READS = [
    *("+nb.get", "+nb.mget", "+nb.hmgetall", "+nb.exists", "+nb.count", "+nb.prefix", "+nb.range"),
    *("+nb.schema", "+nb.meta", "+nb.at", "+nb.tables", "+nb.refuse"),
    *("+nbkey.hgetall", "+nbkey.hmget", "+nbkey.hget", "+nbkey.exists", "+nbkey.hexists"),
    *("+nbkey.hlen", "+nbkey.hkeys", "+nbkey.hvals", "+nbkey.type", "+nbkey.ttl", "+nbkey.pttl"),
]
TABLES = {"users": "shop.users", "events": "shop.events"}


def rows_of(ids: list[int], rng: random.Random) -> pa.Table:
    def some(*values: Any) -> Any:
        return None if rng.random() < 0.2 else rng.choice(values)

    start = datetime.datetime(2024, 5, 1)
    columns = {
        "id": lambda i: i,
        "name": lambda i: some("", "a:b", "x\\y", "é\r\n\0", "plain" * 20),
        "score": lambda i: some(0.1, -0.0, 1e16, float("inf"), float("nan"), i / 3),
        "ok": lambda i: some(True, False),
        "born": lambda i: some(datetime.date(1, 1, 1), datetime.date(9999, 12, 31)),
        "at": lambda i: some(start + datetime.timedelta(microseconds=i % 1000)),
        "cents": lambda i: some(decimal.Decimal(i % 1000 * 7 - 50) / 100),
        "blob": lambda i: some(b"", bytes(range(256))),
        "tags": lambda i: some([], ["a", None, 'q"']),
    }
    return pa.table({name: [of(i) for i in ids] for name, of in columns.items()}, schema=SCHEMA)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    rng = random.Random(8)
    place = str(tmp_path_factory.mktemp("served") / "lake")
    lake = nb.connect(place, create=True)
    users = lake.create_table("shop.users", SCHEMA, primary_key=["id"], cluster_by=["id"])
    for begin in (0, 150, 300):
        ids = sorted(rng.sample(range(begin, begin + 150), 100))
        users.append(rows_of([i - 100 for i in ids], rng))
    users.append(rows_of([-(2**63), 2**63 - 1], rng))
    users.delete("id % 10 = 3")
    schema = pa.schema([("user", pa.string()), ("n", pa.int32()), ("v", pa.float64())])
    events = lake.create_table("shop.events", schema, cluster_by=["user", "n"])
    for part in range(3):
        names = [rng.choice(["a:b", "", "c\\d", "zz"]) for _ in range(60)]
        events.append(
            pa.table({"user": names, "n": range(60), "v": [part / 7] * 60}, schema=schema)
        )
    return place


def options_of(place: str, tables: dict[str, str] = TABLES) -> list[str]:
    named = [word for name, table in tables.items() for word in ("table", f"{table}={name}")]
    return ["lake", place, *named]


@pytest.fixture(scope="module")
def embedded(lake: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The socket of the embedded server, which writes the manifests that the module reads."""
    path = str(tmp_path_factory.mktemp("embedded") / "nimble.sock")
    with nb.serve(lake, TABLES, unix=path, manifests=lake):
        yield path


@pytest.fixture(scope="module", params=sorted(PROGRAMS))
def server(
    request: pytest.FixtureRequest,
    lake: str,
    embedded: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ModuleServer]:
    directory = tmp_path_factory.mktemp("module")
    with module_server(PROGRAMS[request.param], directory, *options_of(lake)) as server:
        yield server


def is_old(server: ModuleServer) -> bool:
    """Whether it is a Redis before 7.0, whose modules cannot reply with maps."""
    with redis.Redis(unix_socket_path=server.path) as client:
        return str(client.info("server")["redis_version"]) < "7"


def random_key(rng: random.Random) -> str:
    return rng.choice(
        [
            str(rng.randrange(-120, 480)),
            str(2**63 - 1),
            str(2**63),
            "007",
            "+1",
            "",
            "x",
            "1:2",
            "\\N",
        ]
    )


def commands(rng: random.Random) -> Iterator[list[bytes | str | int]]:
    """Commands of every kind, right ones and wrong ones."""
    names = [field.name for field in SCHEMA] + ["nothing"]
    for _ in range(150):
        key = f"users:{random_key(rng)}"
        some = [rng.choice(names) for _ in range(rng.randrange(1, 4))]
        columns = ["COLS", len(some), *some] if rng.random() < 0.5 else []
        yield ["HGETALL", key]
        yield ["hGetAll", key]
        yield ["HMGET", key, *some]
        yield ["HGET", key, some[0]]
        yield ["HEXISTS", key, some[0]]
        yield [rng.choice(["HLEN", "HKEYS", "HVALS", "TYPE", "TTL", "PTTL"]), key]
        yield ["EXISTS", key, f"users:{random_key(rng)}", "events:zz:1"]
        yield ["NB.GET", "users", random_key(rng), *columns]
        keys = [random_key(rng) for _ in range(rng.choice([0, 1, 5, 100]))]
        as_ = rng.choice([[], ["AS", "ARROW"], ["AS", "RESP"], ["MISSING", "SKIP"]])
        yield ["NB.MGET", "users", *as_, *columns, "KEYS", len(keys), *keys]
        yield ["NB.HMGETALL", key, KEY, f"events:zz:{rng.randrange(60)}", "foreign"]
        yield [rng.choice(["NB.COUNT", "NB.EXISTS"]), "users", *keys[:5], "1"]
        lower, upper = sorted(rng.randrange(-120, 480) for _ in range(2))
        options = rng.choice(
            [[], ["LIMIT", 7], ["REVERSE"], ["AS", "ARROW"], ["INCLUSIVE", "[]"], ["AFTER", "5"]]
        )
        yield ["NB.RANGE", "users", lower, upper, *options, *columns]
        yield ["NB.PREFIX", "events", rng.choice(["zz", "a\\:b", "", "c\\\\d:4"]), *options[:2]]
    yield ["NB.RANGE", "users", "-", "+", "AS", "RAW"]
    yield ["NB.TABLES"]
    for table in ("users", "events", "nothing"):
        yield ["NB.META", table]
        yield ["NB.SCHEMA", table]
        yield ["NB.SCHEMA", table, "AS", "ARROW"]
    for name in ("GET", "MGET", "HMGETALL", "EXISTS", "COUNT", "PREFIX", "RANGE", "SCHEMA", "AT"):
        yield [f"NB.{name}"]
        yield [f"NB.{name}", "users"]
        yield [f"NB.{name}", b"\xff\r\n\0", b"\r\n", b"\0"]
        yield [f"NB.{name}", "users", *["1"] * 100]
        yield [f"NB.{name}", *["users"] * 3, "COLS", 2**64]
    yield ["NB.MGET", "users", "KEYS", 10_001, *["1"] * 10_001]
    yield ["NB.AT", "0", "NB.GET", "users", "1"]
    yield ["NB.META", "users", "FILE", 1, 2, 3, 4]
    yield ["HMGET", "users:1"]
    yield ["HGETALL", "users:1", "users:2"]
    yield ["HSET", "users:1", "name", "x"]
    yield ["DEL", "users:1"]
    yield ["HSCAN", "users:1", 0]
    yield ["HSTRLEN", "users:1", "name"]
    yield ["GET", "users:1"]
    yield ["DUMP", "events:1"]


@pytest.mark.model
@pytest.mark.parametrize("resp", [2, 3])
def test_replies_equal_those_of_the_embedded_server(
    server: ModuleServer, embedded: str, resp: int
) -> None:
    if resp == 3 and is_old(server):
        pytest.skip("Redis 6.2 has no maps in replies of modules")
    with Connection(server.path, resp) as module, Connection(embedded, resp) as other:
        for words in commands(random.Random(resp)):
            assert module.ask(*words) == other.ask(*words), words[:20]
            if str(words[0]).startswith("NB.") and len(words) < 200:
                inside = []
                for connection in (module, other):
                    connection.ask("MULTI")
                    connection.ask(*words)
                    inside.append(connection.ask("EXEC"))
                assert inside[0] == inside[1], words[:20]


def test_pages_together_are_the_range(server: ModuleServer) -> None:
    with redis.Redis(unix_socket_path=server.path) as client:
        pages: list[Any] = []
        token: Any = b""
        while token is not None:
            token, rows, moved = client.execute_command(
                "NB.RANGE", "users", "-", "+", "LIMIT", 37, "PAGE", token
            )
            pages += rows
            assert moved == 0
        assert pages == client.execute_command("NB.RANGE", "users", "-", "+")[1]


def test_other_keys_are_the_servers_own(server: ModuleServer) -> None:
    with redis.Redis(unix_socket_path=server.path, protocol=2) as client:
        client.flushall()
        client.hset("other:1", "a", "b")
        client.set("text", "users:1")  # a value, not a key
        assert client.hgetall("other:1") == {b"a": b"b"}
        assert client.exists("other:1", KEY, KEY, "text", "users:x", "none") == 4
        assert client.type("text") == b"string"
        assert client.dbsize() == 2
        script = "return {redis.call('HGETALL', KEYS[1]), redis.call('NB.COUNT', 'users', '1:x')}"
        with pytest.raises(redis.ResponseError):
            client.eval(script, 1, KEY)
        script = "return {redis.call('HGETALL', KEYS[1]), redis.call('NB.TABLES')}"
        words, names = client.eval(script, 1, KEY)
        assert dict(zip(words[::2], words[1::2], strict=True)) == client.hgetall(KEY)
        assert names == [b"events", b"users"]
        client.flushall()


def test_writes_of_tables_keys_are_refused(server: ModuleServer) -> None:
    writes: list[list[str]] = [
        ["SET", "users:1", "x"], ["MSET", "a", "1", "users:1", "2"], ["DEL", "a", "users:1"],
        ["EXPIRE", "users:1", "5"], ["RENAME", "a", "users:1"], ["LPUSH", "events:1", "x"],
        ["SUNIONSTORE", "users:1", "a"], ["ZUNIONSTORE", "users:1", "1", "a"],
        ["XADD", "users:1", "*", "a", "b"], ["SORT", "a", "STORE", "users:1"],
        ["XGROUP", "CREATE", "users:1", "g", "$", "MKSTREAM"], ["UNLINK", "users:nothing"],
        ["RESTORE", "users:1", "0", "dump"], ["COPY", "a", "users:1"], ["COPY", "users:1", "b"],
        ["MIGRATE", "127.0.0.1", "1", "users:1", "0", "10"], ["GETDEL", "users:1"],
        ["MIGRATE", "127.0.0.1", "1", "", "0", "10", "KEYS", "a", "users:1"],
    ]  # fmt: skip
    with redis.Redis(unix_socket_path=server.path) as client:
        client.set("a", "1")
        for words in writes:
            with pytest.raises(redis.ReadOnlyError, match=f"^{words[0]}: tables are changed"):
                client.execute_command(*words)
            with pytest.raises(redis.ResponseError, match="tables are changed"):
                client.eval("return redis.call(unpack(ARGV))", 0, *words)
        with client.pipeline(transaction=True) as block:
            for words in writes:
                block.execute_command(*words)
            block.hget(KEY, "id")
            *refused, last = block.execute(raise_on_error=False)
        assert [type(reply) for reply in refused] == [redis.ReadOnlyError] * len(writes)
        assert last == KEY.removeprefix("users:").encode()
        assert client.dbsize() == 1
        client.delete("a")


def test_every_write_command_is_known(server: ModuleServer, embedded: str) -> None:
    with (
        redis.Redis(unix_socket_path=server.path) as client,
        redis.Redis(unix_socket_path=embedded) as other,
    ):
        names = {
            name
            for name, of in client.command().items()
            if "write" in of["flags"] and (of["first_key_pos"] or "movablekeys" in of["flags"])
        }
        assert len(names) > 80
        for name in names:
            with pytest.raises(redis.ReadOnlyError):
                other.execute_command(name, "x", "y")


def may(server: ModuleServer, user: str, *words: str) -> bool:
    with redis.Redis(
        unix_socket_path=server.path, username=user, password="", protocol=2
    ) as client:
        try:
            client.execute_command(*words)
        except redis.exceptions.NoPermissionError:
            return False
        except redis.ResponseError:
            pass
        return True


ALLOWED = [
    ["HGETALL", KEY], ["HGET", KEY, "id"], ["EXISTS", KEY, "users:1"], ["NB.GET", "users", "1"],
    ["NB.RANGE", "users", "-", "+"], ["NB.AT", "x", "NB.COUNT", "users", "1"], ["NB.TABLES"],
    ["SET", KEY, "x"],  # it is answered that tables are read only
]  # fmt: skip
DENIED = [
    ["HGETALL", "events:zz:1"], ["EXISTS", KEY, "events:zz:1"], ["NB.GET", "events", "1"],
    ["NB.RANGE", "events", "-", "+"], ["NB.AT", "x", "NB.COUNT", "events", "1"],
    ["NB.HMGETALL", KEY, "events:zz:1"], ["NB.SWAP", "users", "x"], ["SET", "a", "x"],
    ["FLUSHALL"],
]  # fmt: skip
# Commands whose replies have rows of other keys.
OF_ALL_ROWS = [
    ["NB.RANGE", "users", "-", "+"], ["NB.RANGE", "users", "1", "2", "AS", "RAW"],
    ["NB.PREFIX", "users", "9", "AS", "RAW"], ["NB.META", "users"],
    ["NB.META", "users", "FILE", "1", "2", "0", "1"], ["NB.GET", "users", "9"],
]  # fmt: skip


def test_access_control_sees_keys_and_tables(server: ModuleServer) -> None:
    with redis.Redis(unix_socket_path=server.path, protocol=2) as client:
        client.acl_setuser("all", True, nopass=True, keys=["users", "users:*"], commands=READS)
        client.acl_setuser("one", True, nopass=True, keys=["users:9*"], commands=READS)
        swap = ["NB.SWAP", "users", "nothing.nsm"]
        client.acl_setuser("swap", True, nopass=True, keys=["users"], commands=["+nb.swap"])
        for words in ALLOWED:
            assert may(server, "all", *words), words
        for words in DENIED:
            assert not may(server, "all", *words), words
        assert may(server, "one", "HGETALL", KEY)
        assert may(server, "one", "NB.HMGETALL", KEY, "users:90")
        for words in (["HGETALL", "users:5"], ["NB.HMGETALL", KEY, "users:5"], *OF_ALL_ROWS):
            assert not may(server, "one", *words), words
            assert words in OF_ALL_ROWS or not may(server, "swap", *words)
        for words in OF_ALL_ROWS:
            assert may(server, "all", *words), words
            assert not may(server, "swap", *words), words
        assert may(server, "swap", *swap)
        assert not may(server, "all", *swap)
        assert not may(server, "swap", "NB.SWAP", "events", "nothing.nsm")
        client.acl_deluser("all", "one", "swap")


def test_refusals_never_show_rows(server: ModuleServer) -> None:
    """The server's rules for keys do not see the keys of NB.REFUSE."""
    reads = [
        ["HGETALL", KEY], ["hmget", KEY, "id"], ["HGET", KEY, "id"], ["EXISTS", KEY], ["TYPE", KEY],
        ["HLEN", KEY], ["HKEYS", KEY], ["HVALS", KEY], ["TTL", KEY], ["HEXISTS", KEY, "id"],
        ["NB.GET", "users", KEY.removeprefix("users:")], ["NB.RANGE", "users", "-", "+"],
        ["NB.MGET", "users", "KEYS", "1", "1"], ["NB.HMGETALL", KEY], ["NB.COUNT", "users", "1"],
        ["NB.EXISTS", "users", "1"], ["NB.PREFIX", "users", "1"], ["NB.SCHEMA", "users"],
        ["NB.META", "users"], ["NB.AT", "x", "NB.META", "users"], ["NB.TABLES"],
        ["NB.REFUSE", "HGETALL", KEY], ["SET", KEY, "x"], ["nothing"], [],
    ]  # fmt: skip
    with redis.Redis(unix_socket_path=server.path, protocol=2) as client:
        client.acl_setuser("other", True, nopass=True, keys=["other:*"], categories=["+@all"])
        with redis.Redis(unix_socket_path=server.path, username="other", password="") as other:
            for words in reads:
                with pytest.raises(redis.ResponseError):
                    other.execute_command("NB.REFUSE", *words)
        client.acl_deluser("other")


def test_a_reader_needs_no_right_to_write(server: ModuleServer) -> None:
    if is_old(server):
        pytest.skip("Redis 6.2 has no rights to read keys only")
    with redis.Redis(unix_socket_path=server.path, protocol=2) as client:
        is_7_0 = str(client.info("server")["redis_version"]).startswith("7.0")
        commands = READS if is_7_0 else ["+@read"]  # modules have no categories in Redis 7.0
        client.execute_command("ACL", "SETUSER", "reader", "on", "nopass", "%R~users*", *commands)
        for words in ALLOWED:
            assert may(server, "reader", *words), words
        for words in DENIED:
            assert not may(server, "reader", *words), words
        client.acl_deluser("reader")


def is_rewriting(client: redis.Redis) -> bool:
    state = client.info("persistence")
    return bool(state["aof_rewrite_in_progress"] or state["aof_rewrite_scheduled"])


def test_the_module_cannot_be_unloaded_and_forks_are_safe(server: ModuleServer) -> None:
    with redis.Redis(unix_socket_path=server.path) as client:
        with pytest.raises(redis.ResponseError):
            client.execute_command("MODULE", "UNLOAD", "nimble")
        client.bgsave()
        assert client.exists(KEY) == 1
        client.execute_command("NB.RANGE", "users", "-", "+")
        while client.info("persistence")["rdb_bgsave_in_progress"]:
            time.sleep(0.01)
        assert client.info("persistence")["rdb_last_bgsave_status"] == "ok"
        # The file of commands has the server's own keys only.
        client.config_set("appendonly", "yes")
        client.set("own", "1")
        client.execute_command("NB.RANGE", "users", "-", "+")
        wait_for(lambda: not is_rewriting(client), "the rewrite does not end")
        client.bgrewriteaof()
        assert client.exists(KEY, "own") == 2
        wait_for(lambda: not is_rewriting(client), "the rewrite does not end")
        assert client.info("persistence")["aof_last_bgrewrite_status"] == "ok"
        files = [p for p in Path(server.path).parent.rglob("*appendonly*") if p.is_file()]
        assert not any(b"users" in path.read_bytes() for path in files)
        assert any(b"own" in path.read_bytes() for path in files)
        client.config_set("appendonly", "no")
        client.delete("own")


def test_watched_keys_of_a_table(server: ModuleServer) -> None:
    with (
        redis.Redis(unix_socket_path=server.path) as client,
        redis.Redis(unix_socket_path=server.path) as other,
    ):
        for is_changed in (False, True):
            with client.pipeline(transaction=True) as block:
                block.watch(KEY, "own")
                assert block.hget(KEY, "id") is not None
                with pytest.raises(redis.ReadOnlyError):
                    other.hset(KEY, "name", "x")  # changes nothing
                if is_changed:
                    other.set("own", "1")
                block.multi()
                block.hget(KEY, "id")
                if is_changed:
                    with pytest.raises(redis.WatchError):
                        block.execute()
                else:
                    assert block.execute() == [KEY.removeprefix("users:").encode()]
        client.delete("own")


def test_messages_arrive_between_the_replies_of_threads(server: ModuleServer) -> None:
    """A client of RESP3 that is subscribed gets whole replies, in order."""
    if is_old(server):
        pytest.skip("Redis 6.2 has no maps in replies of modules")
    lengths = [9, 200, 1]
    commands = [["NB.RANGE", "users", "-", "+", "LIMIT", str(n)] for n in lengths]
    with Connection(server.path) as other, Connection(server.path, 3) as client:
        expected = [other.ask(*words).replace(b"$-1\r\n", b"_\r\n") for words in commands]
        assert client.ask("SUBSCRIBE", "channel").startswith(b">3\r\n")
        sent = 0
        got: list[bytes] = []
        messages: list[bytes] = []
        for _ in range(20):
            for words in commands:
                client.send(*words)
                other.ask("PUBLISH", "channel", str(sent))
                sent += 1
        while len(got) < 60 or len(messages) < sent:
            reply = client.read()
            (messages if reply[:1] == b">" else got).append(reply)
    assert got == expected * 20
    assert [m.split(b"\r\n")[-2] for m in messages] == [str(i).encode() for i in range(sent)]


def test_clients_that_leave_while_a_thread_answers(server: ModuleServer) -> None:
    for _ in range(60):
        with Connection(server.path) as connection:
            for _ in range(3):
                connection.send("NB.RANGE", "users", "-", "+")
    with redis.Redis(unix_socket_path=server.path) as client:
        assert len(client.execute_command("NB.RANGE", "users", "-", "+")[1]) > 200


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["lake"], "has no value"),
        (["lake", "relative", "table", "a=b"], "absolute path"),
        (["lake", "/nothing"], "lake and its tables are needed"),
        (["lake", "/nothing", "table", "a"], "TABLE=NAME"),
        (["lake", "/nothing", "table", "a=b:c"], "TABLE=NAME"),
        (["lake", "/nothing", "table", "a=b", "table", "c=b"], "each name once"),
        (["lake", "/nothing", "table", "a=b", "threads", "0"], "from 1 to 64"),
        (["lake", "/nothing", "table", "a=b", "max-keys", "-1"], "a number"),
        (["lake", "/nothing", "table", "a=b", "raw", "maybe"], "yes or no"),
        (["filter", "x"], "unknown option 'filter'"),
        ([], "lake and its tables are needed"),
    ],
)
def test_wrong_options_are_named(options: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=message) as raised:
        ModuleServer(PROGRAMS[sorted(PROGRAMS)[0]], tmp_path, *options)
    assert str(raised.value).startswith("1:")  # an exit, not a signal


class Versions:
    """A lake whose table has the same version in every row, and its follower."""

    def __init__(self, directory: Path, rows: int = 50) -> None:
        self.place = str(directory / "lake")
        self.rows = rows
        schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("version", pa.int64())])
        lake = nb.connect(self.place, create=True)
        self.table = lake.create_table("t.v", schema, primary_key=["id"], cluster_by=["id"])
        self.version = 0
        self.follower: Follower | None = None
        self.commit()

    def commit(self) -> None:
        self.version += 1
        rows = {"id": range(self.rows), "version": [self.version] * self.rows}
        self.table.upsert(pa.table(rows, schema=self.table.schema))

    def follow(self) -> None:
        if self.follower is None:
            self.follower = Follower(
                open_served(self.place, {"v": "t.v"}),
                lambda manifests: write_manifests(f"{self.place}/serve", manifests),
            )
        self.follower.poll()
        assert self.follower.last_error is None

    @property
    def options(self) -> list[str]:
        return options_of(self.place, {"v": "t.v"})


def version_of(client: redis.Redis) -> int:
    return int(client.hget("v:1", "version") or 0)


def wait_for(condition: Any, what: str) -> None:
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.01)


@pytest.mark.parametrize("program", sorted(PROGRAMS))
def test_snapshots_move_forward_under_load(program: str, tmp_path: Path) -> None:
    versions = Versions(tmp_path)
    versions.follow()
    faults: list[str] = []
    done = threading.Event()

    def ask(path: str) -> None:
        last = 0
        keys = [str(i) for i in range(versions.rows)]
        with redis.Redis(unix_socket_path=path, protocol=2) as client:
            while not done.is_set():
                replies = [
                    client.execute_command("NB.RANGE", "v", "-", "+", "COLS", 1, "version")[1],
                    client.execute_command(
                        "NB.MGET", "v", "COLS", 1, "version", "KEYS", len(keys), *keys
                    ),
                ]
                both = client.pipeline(transaction=True)
                both.hget("v:1", "version")
                both.execute_command("NB.RANGE", "v", "-", "+", "COLS", 1, "version")
                first, (_, others) = both.execute()
                replies.append([[first], *others])
                for rows in replies:
                    seen = {int(row[0]) for row in rows}
                    if len(seen) != 1 or min(seen) < last:
                        faults.append(f"{seen} after {last}")
                    last = max(seen)

    with module_server(PROGRAMS[program], tmp_path, *versions.options) as server:
        threads = [threading.Thread(target=ask, args=(server.path,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        with redis.Redis(unix_socket_path=server.path) as client:
            for _ in range(8):
                versions.commit()
                versions.follow()
                wait_for(lambda: version_of(client) == versions.version, "an old snapshot")
        done.set()
        for thread in threads:
            thread.join()
    assert not faults


@pytest.mark.crash
@pytest.mark.parametrize("program", sorted(PROGRAMS))
def test_manifests_that_are_missing_or_damaged(program: str, tmp_path: Path) -> None:
    versions = Versions(tmp_path)
    with (
        module_server(PROGRAMS[program], tmp_path, *versions.options) as server,
        redis.Redis(unix_socket_path=server.path, protocol=2) as client,
    ):
        with pytest.raises(redis.ResponseError, match="no serving manifest"):
            client.hgetall("v:1")
        with pytest.raises(redis.ResponseError, match="no serving manifest"):
            client.exists("other", "v:1")
        assert client.exists("other") == 0
        assert "CURRENT" in client.info("nimble_manifests")["nimble_last_error"]
        versions.follow()
        wait_for(lambda: client.execute_command("NB.TABLES") == [b"v"], "no table")
        assert version_of(client) == 1

        serve = Path(versions.place) / "serve"
        good = (serve / "CURRENT").read_text()
        whole = (serve / good.split()[1]).read_bytes()
        rng = random.Random(4)
        for i in range(20):
            bad = bytearray(whole[: rng.choice([0, 7, len(whole) // 2, len(whole)])])
            if len(bad) == len(whole):
                bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
            (serve / f"bad{i}.nsm").write_bytes(bad)
            with pytest.raises(redis.ResponseError):
                client.execute_command("NB.SWAP", "v", f"bad{i}.nsm")
        for name in (
            "",
            ".",
            "..",
            "../serve/x",
            "/etc/passwd",
            "CURRENT",
            "x",
            b"\0",
            b"\xff" * 999,
        ):
            with pytest.raises(redis.ResponseError):
                client.execute_command("NB.SWAP", "v", name)
        with pytest.raises(redis.ResponseError, match=r"manifest 'lost\.nsm' is not in ") as lost:
            client.execute_command("NB.SWAP", "v", "lost.nsm")
        assert "GONE" not in str(lost.value)
        with pytest.raises(redis.ResponseError, match="NOTABLE"):
            client.execute_command("NB.SWAP", "w", good.split()[1])
        before = client.info("nimble_manifests")["nimble_failures"]
        (serve / "CURRENT.new").write_text("v bad0.nsm\n")
        (serve / "CURRENT.new").rename(serve / "CURRENT")
        wait_for(lambda: client.info("nimble_manifests")["nimble_failures"] > before, "no failure")
        assert version_of(client) == 1
        versions.commit()
        versions.follow()
        wait_for(lambda: version_of(client) == 2, "an old snapshot")
        assert client.info("nimble_manifests")["nimble_last_error"] == "none"
        assert client.execute_command("NB.SWAP", "v", good.split()[1]) == b"OK"
        assert version_of(client) == 1  # the answer to the next command, without a wait
        newest = max(
            Path(versions.place).rglob("*.nimble"), key=lambda path: path.stat().st_mtime_ns
        )
        newest.unlink()
        with pytest.raises(redis.ResponseError, match=f"{newest.name}: No such file"):
            client.execute_command("NB.SWAP", "v", (serve / "CURRENT").read_text().split()[1])
        assert version_of(client) == 1


@pytest.mark.parametrize("program", sorted(PROGRAMS))
def test_dropped_tables_are_answered_as_by_the_embedded_server(
    program: str, tmp_path: Path
) -> None:
    versions = Versions(tmp_path)
    commands: list[tuple[str, ...]] = [
        ("HGETALL", "v:1"), ("HMGET", "v:1", "key"), ("EXISTS", "v:1"), ("TYPE", "v:1"),
        ("NB.GET", "v", "1"), ("NB.HMGETALL", "v:1"), ("NB.TABLES",),
    ]  # fmt: skip

    def replies(client: redis.Redis) -> list[Any]:
        with client.pipeline(transaction=False) as pipe:
            for command in commands:
                pipe.execute_command(*command)
            return [str(reply) for reply in pipe.execute(raise_on_error=False)]

    lake = nb.connect(versions.place)
    with (
        nb.serve(lake, {"v": "t.v"}, poll=0.02, manifests=versions.place) as embedded,
        module_server(PROGRAMS[program], tmp_path, *versions.options) as server,
        redis.Redis(unix_socket_path=server.path, protocol=2) as client,
        redis.Redis(port=embedded.port, protocol=2) as other,
    ):
        wait_for(lambda: client.exists("v:1") == 1, "no table")
        assert replies(client) == replies(other)
        lake.drop_table("t.v")
        wait_for(lambda: other.exists("v:1") == 0, "the server has the dropped table")
        wait_for(lambda: client.exists("v:1") == 0, "the module has the dropped table")
        assert replies(client) == replies(other)
        assert "NOTABLE" in replies(client)[4]
        assert "dropped" in str(client.info("nimble_manifests")["nimble_last_error"])


@pytest.mark.crash
@pytest.mark.parametrize("program", sorted(PROGRAMS))
def test_a_killed_server_starts_again(program: str, tmp_path: Path) -> None:
    versions = Versions(tmp_path)
    versions.follow()
    with module_server(PROGRAMS[program], tmp_path, *versions.options) as server:
        for _ in range(3):
            connection = Connection(server.path)
            for _ in range(20000):
                connection.send("NB.RANGE", "v", "-", "+")
            server.kill()
            replies = 0
            with contextlib.suppress(OSError):
                while True:
                    connection.read()
                    replies += 1
            assert replies < 20000
            connection.close()
            server.start()
            with redis.Redis(unix_socket_path=server.path) as client:
                assert version_of(client) == versions.version
        assert sorted(p.name for p in Path(versions.place, "serve").iterdir())[0] == "CURRENT"


def test_limits_of_the_options(lake: str, embedded: str, tmp_path: Path) -> None:
    program = PROGRAMS[sorted(PROGRAMS)[0]]
    limits = ["max-keys", "3", "max-rows", "5", "max-reply-bytes", "1024", "raw", "no"]
    with (
        module_server(program, tmp_path, *options_of(lake), *limits) as server,
        redis.Redis(unix_socket_path=server.path) as client,
    ):
        for words in (
            ["NB.COUNT", "users", "1", "2", "3", "4"], ["NB.RANGE", "users", "-", "+"],
            ["NB.RANGE", "users", "-", "+", "LIMIT", "5"],
        ):  # fmt: skip
            with pytest.raises(redis.ResponseError, match="TOOBIG"):
                client.execute_command(*words)
        with pytest.raises(redis.ResponseError, match="does not send parts"):
            client.execute_command("NB.META", "users", "FILE", 1, 2, 3, 4)


def test_module_path_is_printed() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "nimblepy", "module-path"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(done.stdout.strip()).name == "nimble_redis.so"
    assert Path(done.stdout.strip()).exists()


def free_ports(count: int) -> list[str]:
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(socket.socket()) for _ in range(count)]
        for peer in peers:
            peer.bind(("127.0.0.1", 0))
        return [str(peer.getsockname()[1]) for peer in peers]


NEWEST = max(PROGRAMS, default="")


@contextlib.contextmanager
def servers_together(
    directory: Path, options: list[str], *added: list[str]
) -> Iterator[list[ModuleServer]]:
    """Servers of the newest program, all with the module."""
    with contextlib.ExitStack() as stack:
        servers = []
        for number, more in enumerate(added):
            place = directory / str(number)
            place.mkdir()
            server = module_server(PROGRAMS[NEWEST], place, *options, *more)
            servers.append(stack.enter_context(server))
        yield servers


def test_replicas_answer_from_their_own_files(lake: str, embedded: str, tmp_path: Path) -> None:
    port, other = free_ports(2)
    sync = ["--repl-diskless-sync", "no"]
    servers = servers_together(
        tmp_path,
        options_of(lake),
        ["--port", port, *sync],
        ["--port", other, *sync, "--replicaof", "127.0.0.1", port],
    )
    with (
        servers,
        redis.Redis(port=int(port)) as primary,
        redis.Redis(port=int(other)) as replica,
    ):
        primary.set("own", "1")
        wait_for(lambda: replica.get("own") == b"1", "no replication")
        assert replica.hgetall(KEY) == primary.hgetall(KEY) != {}
        rows = [
            client.execute_command("NB.RANGE", "users", "-", "+") for client in (primary, replica)
        ]
        assert rows[0] == rows[1]
        with pytest.raises(redis.ReadOnlyError, match="tables are changed"):
            replica.hset(KEY, "name", "x")
        before = primary.info("replication")["master_repl_offset"]
        current = (Path(lake) / "serve" / "CURRENT").read_text().split()
        manifest = current[current.index("users") + 1]
        assert primary.execute_command("NB.SWAP", "users", manifest) == b"OK"
        primary.set("own", "2")
        wait_for(lambda: replica.get("own") == b"2", "no replication")
        # The primary sent its own key only.
        assert primary.info("replication")["master_repl_offset"] - before < 150
        assert replica.dbsize() == primary.dbsize() == 1


@pytest.mark.skipif(NEWEST < "redis-server 7", reason="CLUSTER ADDSLOTSRANGE is newer")
def test_nodes_of_a_cluster_redirect_keys(lake: str, embedded: str, tmp_path: Path) -> None:
    ports = free_ports(2)
    buses = free_ports(2)
    cluster = ["--cluster-enabled", "yes", "--cluster-allow-reads-when-down", "yes"]
    servers = servers_together(
        tmp_path,
        options_of(lake),
        *(
            ["--port", port, "--cluster-port", bus, *cluster]
            for port, bus in zip(ports, buses, strict=True)
        ),
    )
    with servers, contextlib.ExitStack() as stack:
        nodes = [stack.enter_context(redis.Redis(port=int(port), protocol=2)) for port in ports]
        nodes[0].execute_command("CLUSTER ADDSLOTSRANGE", 0, 8191)
        nodes[1].execute_command("CLUSTER ADDSLOTSRANGE", 8192, 16383)
        nodes[0].execute_command("CLUSTER MEET", "127.0.0.1", ports[1], buses[1])

        def slots(node: redis.Redis) -> int:
            return int(node.execute_command("CLUSTER INFO")["cluster_slots_ok"])

        wait_for(lambda: [slots(node) for node in nodes] == [16384] * 2, "no cluster")
        seen = set()
        for number in range(20):
            key = f"users:{number}"
            slot = int(nodes[0].execute_command("CLUSTER KEYSLOT", key))
            owner = int(slot >= 8192)
            seen.add(owner)
            nodes[owner].hgetall(key)
            with pytest.raises(redis.ResponseError, match=f"{slot} 127.0.0.1:{ports[owner]}") as e:
                nodes[1 - owner].hgetall(key)
            assert type(e.value).__name__ == "MovedError"
        assert seen == {0, 1}
