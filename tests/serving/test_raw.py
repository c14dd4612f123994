"""Rows that a server sends encoded: equal to the decoded ones, in fewer bytes."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import nimblepy as nb
from nimblepy import _core

ROWS = 12_000
COLUMNS = [
    *("k", "small", "big", "f", "g", "b", "city", "name", "blob", "fixed", "cents", "day", "at"),
    *("id", "constant", "nulls", "run", "url"),
]


def some_rows(begin: int, count: int, rng: random.Random) -> pa.Table:
    """A column for each kind of encoding."""
    at = range(begin, begin + count)

    def gaps(values: list[Any]) -> list[Any]:
        return [None if rng.random() < 0.1 else value for value in values]

    return pa.table(
        {
            "k": pa.array(at, pa.int64()),
            "small": pa.array(gaps([i % 7 for i in at]), pa.int8()),
            "big": pa.array([rng.getrandbits(63) for _ in at], pa.int64()),
            "f": pa.array(gaps([rng.random() for _ in at]), pa.float64()),
            "g": pa.array([round(rng.random(), 2) for _ in at], pa.float32()),
            "b": pa.array(gaps([rng.random() < 0.2 for _ in at]), pa.bool_()),
            "city": pa.array(gaps([rng.choice(["Oslo", "", "Graz", "Łódź"]) for _ in at])),
            "name": pa.array([f"user {rng.randrange(10**6)}" for _ in at], pa.large_string()),
            "blob": pa.array([rng.randbytes(rng.randrange(9)) for _ in at], pa.binary()),
            "fixed": pa.array([rng.randbytes(5) for _ in at], pa.binary(5)),
            "cents": pa.array(gaps([rng.randrange(10**6) for _ in at]), pa.int64()).cast(
                pa.decimal128(21, 2)
            ),
            "day": pa.array([i // 300 for i in at], pa.int32()).cast(pa.date32()),
            "at": pa.array([i * 1000 for i in at], pa.timestamp("us", tz="UTC")),
            "id": pa.array([rng.randbytes(16) for _ in at], pa.uuid()),
            "constant": pa.array([7] * count, pa.int64()),
            "nulls": pa.nulls(count, pa.string()),
            "run": pa.array([i // 5000 for i in at], pa.int64()),
            "url": pa.array([f"https://example.org/{i % 50}/item/{i}" for i in at]),
            "tags": pa.array([[i % 3] for i in at], pa.list_(pa.int32())),
        }
    )


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> nb.Catalog:
    """A table of two files with deleted rows, and of one file that overlaps them."""
    rng = random.Random(1)
    lake = nb.connect(tmp_path_factory.mktemp("lake"), create=True)
    rows = some_rows(0, ROWS, rng)
    table = lake.create_table("a.t", rows.schema, cluster_by=["k"])
    table.append(rows.slice(0, 8000))
    table.append(rows.slice(8000))
    table.delete("k >= 3000 and k < 3500 or k % 97 = 5")
    return lake


@pytest.fixture(scope="module")
def served(lake: nb.Catalog) -> Iterator[nb.RemoteLake]:
    with nb.serve(lake, {"t": "a.t"}) as server, nb.connect(server.address) as served:
        yield served


class Counted:
    """Counts the commands and the bytes of the replies of a connection."""

    def __init__(self, table: nb.RemoteTable, monkeypatch: pytest.MonkeyPatch) -> None:
        self.commands: list[str] = []
        self.bytes = 0
        send = table._connection.ask

        def ask(*words: Any) -> Any:
            self.commands.append(str(words[0]))
            reply = send(*words)
            if isinstance(reply, list):
                self.bytes += sum(len(part) for part in reply if isinstance(part, bytes))
            return reply

        monkeypatch.setattr(table._connection, "ask", ask)


def test_raw_rows_equal_decoded_ones(lake: nb.Catalog, served: nb.RemoteLake) -> None:
    rng = random.Random(2)
    table, local = served.table("t"), lake.table("a.t")
    edges = [0, 1, 511, 512, 513, 1023, 1024, 1025, 2999, 3500, 4096, 7999, 8000, 8001, 8192]
    for _ in range(80):
        begin = rng.choice([rng.choice(edges), rng.randrange(ROWS)])
        count = rng.choice([1, 500, 512, 513, 1024, 1025, rng.randrange(1, 6000), ROWS])
        columns = rng.sample(COLUMNS, rng.choice([1, 2, 5, len(COLUMNS)]))
        asked: dict[str, Any] = {"columns": columns, "limit": rng.choice([None, None, 700])}
        got = table.range(begin, begin + count, accept="raw", **asked)
        assert got.equals(local.range(begin, begin + count, **asked)), (begin, count, columns)
    assert table.range(accept="raw").equals(local.range())
    assert table.prefix(17, accept="raw").equals(local.prefix(17))


def test_raw_rows_take_fewer_bytes_and_no_metadata_twice(
    served: nb.RemoteLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = served.table("t")
    columns = ["k", "small", "city", "day", "constant", "run", "at"]
    counted = Counted(table, monkeypatch)
    table.range(3600, 7600, columns=columns, accept="raw")
    assert counted.commands == ["NB.RANGE", "NB.META"]
    counted.commands.clear()
    counted.bytes = 0
    raw = table.range(3700, 7900, columns=columns, accept="raw")
    raw_bytes, counted.bytes = counted.bytes, 0
    arrow = table.range(3700, 7900, columns=columns, accept="arrow")
    assert raw.equals(arrow)
    assert counted.commands == ["NB.RANGE", "NB.RANGE"]
    assert raw_bytes < 0.3 * counted.bytes


@pytest.mark.parametrize(
    "asked",
    [
        {"columns": ["k", "tags"]},  # nested
        {"columns": COLUMNS, "reverse": True},
        {"columns": COLUMNS, "limit": 511},
        {"columns": []},
    ],
)
def test_other_rows_come_as_arrow(
    lake: nb.Catalog, served: nb.RemoteLake, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any]
) -> None:
    table = served.table("t")
    counted = Counted(table, monkeypatch)
    got = table.range(5000, 8000, accept="raw", **asked)
    expected = lake.table("a.t").range(5000, 8000, **asked)
    assert got.equals(expected) or (got.shape == expected.shape and not asked["columns"])
    assert counted.commands == ["NB.RANGE"]
    with pytest.raises(nb.InvalidArgumentError, match="'auto', 'arrow' or 'raw'"):
        table.range(accept="json")


def test_each_file_is_sent_in_its_own_form(tmp_path: Path) -> None:
    """Files from before a change of the columns are decoded by the server."""
    lake = nb.connect(tmp_path / "lake", create=True)
    schema = pa.schema([("k", pa.int64()), ("v", pa.int32())])
    table = lake.create_table("a.t", schema, cluster_by=["k"])
    table.append(pa.table({"k": range(2000), "v": range(2000)}, schema=schema))
    with table.alter() as change:
        change.add_column("w", pa.int64(), default=9)
        change.widen("v", pa.int64())
    more = pa.table({"k": range(2000, 4000), "v": range(2000), "w": range(2000)})
    table.append(more.cast(table.schema))
    with nb.serve(lake, {"t": "a.t"}) as server, nb.connect(server.address) as served:
        remote = served.table("t")
        assert remote.range(accept="raw").equals(table.range())
        assert remote.range(1000, 3000, accept="raw").equals(table.range(1000, 3000))
        for columns, is_raw in (("k", True), ("kw", False), ("kv", False), ("kvw", False)):
            _, reply = remote._connection.ask(
                "NB.RANGE", "t", "-", "+", "AS", "RAW", "COLS", str(len(columns)), *columns
            )
            assert [frame.is_raw for frame in _core.raw_frames(reply)] == [is_raw, True]


def test_many_short_runs_come_as_arrow(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    for part in range(3):
        rows = pa.table({"k": range(part, 6000, 3), "v": ["x"] * 2000})
        nb.write(rows, tmp_path / "d" / f"{part}.nimble", cluster_by=["k"])
    with (
        nb.open_dataset(tmp_path / "d") as local,
        nb.serve(local, "t") as server,
        nb.connect(server.address) as served,
    ):
        assert served.table("t").range(accept="raw").equals(local.range())


def test_servers_may_refuse_to_send_blocks(
    lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    with nb.serve(lake, {"t": "a.t"}, raw=False) as server, nb.connect(server.address) as served:
        table = served.table("t")
        counted = Counted(table, monkeypatch)
        assert table.range(0, 5000, accept="raw").equals(lake.table("a.t").range(0, 5000))
        assert counted.commands == ["NB.AT"]  # one command, the range
        with pytest.raises(nb.InvalidArgumentError, match="does not send parts"):
            table._connection.ask("NB.META", "t", "FILE", "1", "2", "0", "1")


@pytest.mark.parametrize("accept", ["raw", "arrow"])
def test_columns_with_other_types_than_the_handle_knows(tmp_path: Path, accept: str) -> None:
    lake = nb.connect(tmp_path / "lake", create=True)
    schema = pa.schema([("k", pa.int64()), ("v", pa.int32())])

    def make(type: pa.DataType, values: list[Any]) -> nb.Table:
        columns = {"k": range(2000), "v": pa.array(values, type)}
        rows = pa.table(columns, schema=schema.set(1, pa.field("v", type)))
        table = lake.create_table("a.t", rows.schema, cluster_by=["k"])
        table.append(rows)
        return table

    def moved_to(table: nb.Table) -> None:
        until = time.monotonic() + 30
        while served.table("t").snapshot != table.snapshot:
            assert time.monotonic() < until

    table = make(pa.int32(), list(range(2000)))
    with (
        nb.serve(lake, {"t": "a.t"}, poll=0.01) as server,
        nb.connect(server.address) as served,
    ):
        remote = served.table("t")
        with table.alter() as change:
            change.widen("v", pa.int64())
        added = pa.table({"k": range(2000, 4000), "v": [2**40] * 2000}, schema=table.schema)
        table.append(added)
        moved_to(table)
        assert remote.range(columns=["v"], accept=accept).equals(table.range(columns=["v"]))
        for type, values in (
            (pa.string(), [f"0{i}" for i in range(2000)]),
            (pa.float64(), [i + 0.5 for i in range(2000)]),
        ):
            lake.drop_table("a.t")
            table = make(type, values)
            moved_to(table)
            assert remote.range(columns=["v"], accept=accept).equals(table.range(columns=["v"]))


def test_calls_above_the_limits_are_cut_in_pages(lake: nb.Catalog) -> None:
    with (
        nb.serve(lake, {"t": "a.t"}, max_rows=4000, max_reply_bytes=200_000) as server,
        nb.connect(server.address) as served,
    ):
        got = served.table("t").range(columns=COLUMNS, accept="raw")
        assert got.equals(lake.table("a.t").range(columns=COLUMNS))


def test_metadata_above_the_limit_of_a_reply(lake: nb.Catalog) -> None:
    with (
        nb.serve(lake, {"t": "a.t"}, max_reply_bytes=4000) as server,
        nb.connect(server.address) as served,
    ):
        got = served.table("t").range(5000, 6000, columns=["k", "constant"], accept="raw")
        assert got.equals(lake.table("a.t").range(5000, 6000, columns=["k", "constant"]))


def test_threads_share_the_parts_of_files(lake: nb.Catalog, served: nb.RemoteLake) -> None:
    table, local = served.table("t"), lake.table("a.t")
    problems: list[BaseException] = []

    def read(seed: int) -> None:
        rng = random.Random(seed)
        try:
            for _ in range(10):
                begin = rng.randrange(ROWS)
                asked = {"columns": rng.sample(COLUMNS, 5), "limit": 2000}
                got = table.range(begin, accept="raw", **asked)
                assert got.equals(local.range(begin, **asked))
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]


@pytest.mark.sanitizer
def test_damaged_blocks_are_found(lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """No changed byte of a reply gives other rows, and the handle remains usable."""
    rng = random.Random(3)
    with nb.serve(lake, {"t": "a.t"}) as server, nb.connect(server.address) as served:
        table, local = served.table("t"), lake.table("a.t")
        send = table._connection.ask
        damage = ""

        def ask(*words: Any) -> Any:
            reply = send(*words)
            if words[0] != damage:
                return reply
            changed = bytearray(reply[1] if damage == "NB.RANGE" else reply)
            if rng.random() < 0.2:
                del changed[rng.randrange(len(changed)) :]
            else:
                changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
            return [reply[0], bytes(changed)] if damage == "NB.RANGE" else bytes(changed)

        monkeypatch.setattr(table._connection, "ask", ask)
        expected = local.range(5000, 7000, columns=COLUMNS)
        refused = 0
        for i in range(120):
            damage = "NB.META" if i % 3 == 0 else "NB.RANGE"
            table._raw._files.clear()
            try:
                rows = table.range(5000, 7000, columns=COLUMNS, accept="raw")
                assert rows.equals(expected)  # the byte was not used
            except (nb.CorruptFileError, nb.UnsupportedVersionError):
                refused += 1
            damage = ""
            assert table.range(5000, 5600, columns=["k"], accept="raw").num_rows > 590
        assert refused > 60


def test_files_that_the_server_does_not_have(served: nb.RemoteLake) -> None:
    ask = served.table("t")._connection.ask
    with pytest.raises(nb.StaleFileError):
        ask("NB.META", "t", "FILE", "1", "2", "0", "1")
    for words in (["FILE", "1", "2", "0"], ["FILE", "x", "2", "0", "1"], ["BYTES", *"1234"]):
        with pytest.raises(nb.InvalidArgumentError):
            ask("NB.META", "t", *words)


def test_few_files_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nimblepy.serving import raw

    monkeypatch.setattr(raw, "_KEPT_FILES", 2)
    for part in range(5):
        rows = pa.table({"k": range(3000 * part, 3000 * part + 3000)})
        nb.write(rows, tmp_path / f"{part}.nimble", cluster_by="k")
    with nb.serve(tmp_path, "d") as server:
        table = nb.connect(server.address).table("d")
        for begin in (0, 3000, 6000, 9000, 12_000, 0):
            read = table.range(begin, begin + 3000, accept="raw")
            assert read["k"].to_pylist() == list(range(begin, begin + 3000))
        assert 0 < len(table._raw._files) <= 2


def many_rows(count: int) -> pa.Table:
    """Rows for several stripes, made without a loop over them."""
    rng = np.random.default_rng(5)
    at = np.arange(count)
    cents = pa.array(rng.integers(0, 10**6, count)).cast(pa.decimal128(21, 2))
    numbers = rng.standard_normal(count)
    return pa.table(
        {
            "k": at,
            "f": pa.array(numbers, mask=at % 11 == 0),
            "g": pa.array(np.round(numbers, 1), pa.float32()),
            "small": pa.array(at // 1000 % 100, pa.int8()),
            "city": pa.array(["Oslo", "", None, "Łódź"]).take(pa.array(rng.integers(0, 4, count))),
            "url": pc.binary_join_element_wise(
                "https://example.org/", pc.cast(at, pa.string()), ""
            ),
            "cents": cents,
            "at": pa.array(at * 1000 + rng.integers(0, 9, count), pa.timestamp("us")),
        }
    )


@pytest.mark.parametrize("compression", ["fast", "compact"])
def test_raw_rows_across_stripes_segments_and_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compression: Any
) -> None:
    rng = random.Random(6)
    count = 60_000
    rows = many_rows(count)
    options = nb.WriteOptions(compression=compression, stripe_bytes=1 << 19)
    lake = nb.connect(tmp_path, create=True)
    table = lake.create_table("a.t", rows.schema, cluster_by="k", options=options)
    table.append(rows.slice(0, 40_000))
    table.append(rows.slice(40_000))
    table.delete("k % 1009 = 5 or k >= 17000 and k < 17800")
    edges = [0, 17_000, 17_800, 40_000, count]
    for path in tmp_path.rglob("data-*.nimble"):
        with nb.open(path) as file:
            first = int(file.head(1)["k"][0].as_py())
            stripes = [part.rows for part in file.layout().walk() if part.kind == "stripe"]
        assert len(stripes) > 2
        edges += [first + sum(stripes[:n]) for n in range(1, len(stripes))]
    with nb.serve(tmp_path, {"t": "a.t"}) as server, nb.connect(server.address) as served:
        remote = served.table("t")
        counted = Counted(remote, monkeypatch)
        assert remote.range(accept="raw").equals(table.range())
        assert counted.commands.count("NB.META") >= 2
        for _ in range(25):
            begin = rng.choice([rng.choice(edges) - rng.randrange(3), rng.randrange(count)])
            size = rng.choice([600, 1024, 5000, 20_000])
            columns = rng.sample(rows.column_names, rng.choice([1, 4, len(rows.column_names)]))
            got = remote.range(begin, begin + size, columns=columns, accept="raw")
            assert got.equals(table.range(begin, begin + size, columns=columns)), (begin, size)
