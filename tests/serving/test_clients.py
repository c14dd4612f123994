"""Unmodified clients, beside redis-py with its own parser: redis-py with hiredis, and Valkey GLIDE.

GLIDE is a client in Rust (`pip install valkey-glide-sync`, 7 MB, not in the test group).
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pytest
import redis
from redis_servers import has_module, module_server, server_programs

import nimblepy as nb

ROWS = [
    {"id": 1, "name": "Ada", "score": 0.1, "ok": True},
    {"id": 2, "name": "\u00e9\r\n", "score": None, "ok": False},
    {"id": -3, "name": "", "score": 1e300, "ok": None},
]
PROGRAMS = server_programs() if has_module() else {}
CARRIERS = ["nimble serve", *sorted(PROGRAMS)]
Reply = Any


class Client(Protocol):
    def ask(self, *words: str) -> Reply: ...
    def ask_at_once(self, commands: Sequence[Sequence[str]], atomic: bool) -> list[Reply]: ...


class RedisPy:
    """redis-py, with a parser of its own or that of hiredis."""

    error = redis.ResponseError

    def __init__(self, port: int, protocol: int, parser: type) -> None:
        pool = redis.ConnectionPool(port=port, protocol=protocol, parser_class=parser)
        self._client = redis.Redis(connection_pool=pool)
        # Replies as they arrive, for every client alike.
        self._client.response_callbacks.clear()

    def ask(self, *words: str) -> Reply:
        return self._client.execute_command(*words)

    def ask_at_once(self, commands: Sequence[Sequence[str]], atomic: bool) -> list[Reply]:
        with self._client.pipeline(transaction=atomic) as pipe:
            for words in commands:
                pipe.execute_command(*words)
            replies: list[Reply] = pipe.execute()
            return replies

    def close(self) -> None:
        self._client.close()


class Glide:
    def __init__(self, port: int, protocol: int) -> None:
        import glide_sync as glide

        self._glide = glide
        self.error = glide.RequestError
        self._client = glide.GlideClient.create(
            glide.GlideClientConfiguration(
                [glide.NodeAddress("127.0.0.1", port)],
                protocol=glide.ProtocolVersion.RESP3
                if protocol == 3
                else glide.ProtocolVersion.RESP2,
            )
        )

    def ask(self, *words: str) -> Reply:
        return self._client.custom_command([*words])

    def ask_at_once(self, commands: Sequence[Sequence[str]], atomic: bool) -> list[Reply]:
        batch = self._glide.Batch(is_atomic=atomic)
        for words in commands:
            batch.custom_command([*words])
        replies: list[Reply] = self._client.exec(batch, raise_on_error=True)
        return replies

    def close(self) -> None:
        self._client.close()


def made(kind: str, port: int, protocol: int) -> Any:
    if kind == "glide":
        pytest.importorskip("glide_sync")
        return Glide(port, protocol)
    if kind == "hiredis":
        pytest.importorskip("hiredis")
        from redis._parsers import _HiredisParser

        return RedisPy(port, protocol, _HiredisParser)
    from redis._parsers import _RESP2Parser, _RESP3Parser

    return RedisPy(port, protocol, _RESP3Parser if protocol == 3 else _RESP2Parser)


@pytest.fixture(scope="module", params=CARRIERS)
def port(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a server."""
    directory: Path = tmp_path_factory.mktemp("clients")
    place = str(directory / "lake")
    lake = nb.connect(place, create=True)
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            *{"name": pa.string(), "score": pa.float64(), "ok": pa.bool_()}.items(),
        ]
    )
    users = lake.create_table("shop.users", schema, primary_key=["id"], cluster_by=["id"])
    users.append(pa.Table.from_pylist(ROWS, schema=schema))
    with nb.serve(place, {"users": "shop.users"}, port=0, manifests=place) as embedded:
        assert embedded.port is not None
        if request.param == "nimble serve":
            yield embedded.port
            return
        with contextlib.closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            number: int = free.getsockname()[1]
        options = ["lake", place, "table", "shop.users=users", "--port", str(number)]
        with module_server(PROGRAMS[request.param], directory, *options):
            yield number


def texts(reply: Reply) -> Any:
    """A reply with text as str, and maps of RESP2 and RESP3 alike."""
    if isinstance(reply, bytes):
        return reply.decode()
    if isinstance(reply, dict):
        return {texts(key): texts(value) for key, value in reply.items()}
    return [texts(item) for item in reply] if isinstance(reply, list) else reply


def pairs(reply: Reply) -> dict[str, str]:
    plain = texts(reply)
    return plain if isinstance(plain, dict) else dict(zip(plain[::2], plain[1::2], strict=True))


def shown(row: dict[str, Any]) -> dict[str, str]:
    texts_of = {True: "true", False: "false"}
    return {
        name: texts_of[value] if isinstance(value, bool) else str(value)
        for name, value in row.items()
        if value is not None
    }


@pytest.mark.no_sanitizer
@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("kind", ["redis-py", "hiredis", "glide"])
def test_clients_read_rows(kind: str, protocol: int, port: int) -> None:
    client = made(kind, port, protocol)
    try:
        for row in ROWS:
            key = f"users:{row['id']}"
            assert pairs(client.ask("HGETALL", key)) == shown(row)
            assert texts(client.ask("HMGET", key, "name", "nothing", "score")) == [
                row["name"], None, shown(row).get("score")
            ]  # fmt: skip
            assert pairs(client.ask("NB.GET", "users", str(row["id"]))) == shown(row)
            assert client.ask("HLEN", key) == len(shown(row))
        assert pairs(client.ask("HGETALL", "users:99")) == {}
        assert client.ask("HGET", "users:99", "name") is None
        assert client.ask("EXISTS", "users:1", "users:99", "users:2") == 2
        assert texts(client.ask("TYPE", "users:1")) == "hash"
        rows = texts(client.ask("NB.MGET", "users", "COLS", "1", "name", "KEYS", "2", "2", "7"))
        assert rows == [[ROWS[1]["name"]], None]
        for words in (("HSET", "users:1", "name", "x"), ("NB.GET", "nothing", "1")):
            with pytest.raises(client.error):
                client.ask(*words)
        many = [("HGET", f"users:{i % 4}", "name") for i in range(200)]
        names = {row["id"]: row["name"] for row in ROWS}
        for atomic in (False, True):
            replies = client.ask_at_once(many, atomic)
            assert texts(replies) == [names.get(i % 4) for i in range(200)]
    finally:
        client.close()
