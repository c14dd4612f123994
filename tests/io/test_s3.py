"""Files in an object store: whole writes, few requests, failures that pass, versions kept apart."""

from __future__ import annotations

import concurrent.futures
import contextlib
import pickle
import sys
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from bench.s3_server import BUCKET, KEYS, Server

import nimblepy as nb

pytestmark = pytest.mark.store

ROWS = 200_000


def table(rows: int = ROWS, seed: int = 1) -> pa.Table:
    generator = np.random.default_rng(seed)
    return pa.table(
        {
            "id": np.arange(rows) * 3,
            "a": generator.random(rows),
            "b": generator.integers(0, 1 << 40, rows),
            "name": [f"name {i % 977}" for i in range(rows)],
        }
    )


@pytest.fixture(scope="module")
def data() -> pa.Table:
    return table()


@pytest.fixture(params=["obstore", "pyarrow"])
def store(request: pytest.FixtureRequest, server: Server) -> Any:
    return server.obstore() if request.param == "obstore" else server.arrow()


def put(store: Any, name: str, rows: pa.Table, **keywords: Any) -> None:
    nb.write(rows, name, cluster_by="id", filesystem=store, **keywords)


def test_what_is_written_is_read_back(store: Any, data: pa.Table) -> None:
    put(store, "back.nimble", data)
    with nb.open("back.nimble", filesystem=store) as file:
        assert file.to_table().equals(data)
        assert file.get(300) == data.slice(100, 1).to_pylist()[0]
        assert file.get(301) is None


def test_a_uri_finds_its_store(
    server: Server, data: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(server.obstore(), "folder/uri.nimble", data)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    for name, value in KEYS.items():
        monkeypatch.setenv(f"AWS_{name.upper()}", value)
    with nb.open(f"s3://{BUCKET}/folder/uri.nimble") as file:
        assert file.num_rows == ROWS
        again = pickle.loads(pickle.dumps(file))
        assert again.get(3) == file.get(3)


def test_a_name_with_a_number_sign(
    server: Server, data: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came after it was no part of the name: the second file replaced the first."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    for name, value in KEYS.items():
        monkeypatch.setenv(f"AWS_{name.upper()}", value)
    for i in (1, 2):
        nb.write(data.slice(i, 1), f"s3://{BUCKET}/sign/a#{i}.nimble")
    for i in (1, 2):
        assert nb.open(f"s3://{BUCKET}/sign/a#{i}.nimble").to_table().equals(data.slice(i, 1))
        with nb.open(f"sign/a#{i}.nimble", filesystem=server.obstore()) as file:
            assert file.num_rows == 1


def test_a_directory_is_opened_through_the_store_of_its_files(
    server: Server, data: pa.Table, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # open_dataset("s3://...") went to pyarrow where open("s3://...") went to obstore.
    for i in range(2):
        put(server.obstore(), f"many/{i}.nimble", data.slice(i * 1000, 1000))
    with nb.open_dataset("many", filesystem=store) as dataset:
        assert (len(dataset.paths), dataset.num_rows) == (2, 2000)
        assert dataset.get(3000) == data.slice(1000, 1).to_pylist()[0]
    with pytest.raises(FileNotFoundError):
        nb.open_dataset("none", filesystem=store)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    for name, value in KEYS.items():
        monkeypatch.setenv(f"AWS_{name.upper()}", value)
    with nb.open_dataset(f"s3://{BUCKET}/many/") as dataset:
        assert dataset.get(3000)["id"] == 3000
        put(server.obstore(), "many/1.nimble", data.slice(0, 500))
        again = pickle.loads(pickle.dumps(dataset))
        assert again.num_rows == 2000
        assert again.refresh().num_rows == 1500


def test_requests_are_tried_again_in_one_place(server: Server, data: pa.Table) -> None:
    # Our own five attempts were each of them tried as often as the store is told to.
    from obstore.store import S3Store

    store = S3Store(
        BUCKET,
        endpoint=server.url,
        client_options={"allow_http": True},
        retry_config={
            "max_retries": 2,
            "backoff": {
                "init_backoff": timedelta(milliseconds=1),
                "max_backoff": timedelta(milliseconds=1),
                "base": 2,
            },
            "retry_timeout": timedelta(seconds=10),
        },
        **KEYS,
    )
    put(store, "tried.nimble", data)
    server.faults.reset()
    server.faults.fail = 1.0
    with pytest.raises(OSError, match=r"tried\.nimble"):
        nb.open("tried.nimble", filesystem=store)
    assert server.faults.methods.count("GET") == 3


def test_rounds_not_reads_cost_time(server: Server, data: pa.Table) -> None:
    store = server.obstore()
    put(store, "rounds.nimble", data)
    server.faults.reset()
    with nb.open("rounds.nimble", filesystem=store) as file:
        assert server.faults.methods == ["GET"]
        server.faults.delay = 0.02
        file.reset_io_stats()
        file.get(3 * 150_000)
        assert file.io_stats.rounds <= 3
        # what lies in the tail that opening has read needs no request
        assert len(server.faults.methods) - 1 <= file.io_stats.reads
        assert server.faults.most_at_once > 1


@pytest.mark.parametrize("kind", ["fail", "cut"])
def test_failures_that_pass_are_not_seen(server: Server, data: pa.Table, kind: str) -> None:
    store = server.obstore()
    put(store, f"{kind}.nimble", data)
    keys = np.random.default_rng(5).integers(0, ROWS, 60) * 3

    def ask() -> tuple[list[Any], int]:
        before = len(server.faults.methods)
        with nb.open(f"{kind}.nimble", filesystem=store, cache_bytes=0) as file:
            found = [file.get(int(key), columns=["b"]) for key in keys]
        return found, len(server.faults.methods) - before

    clean, requests = ask()
    assert [row["b"] for row in clean] == data["b"].take(keys // 3).to_pylist()
    setattr(server.faults, kind, 0.05)
    found, more = ask()
    assert found == clean
    assert server.faults.failed > 0
    assert more == requests + server.faults.failed, "one more request for each that failed"


def test_failures_that_stay_are_told(server: Server, data: pa.Table) -> None:
    store = server.arrow()
    put(store, "stay.nimble", data)
    with nb.open("stay.nimble", filesystem=store) as file:
        server.faults.forbid = True
        with pytest.raises(PermissionError, match=r"stay\.nimble: the store refuses access"):
            file.get(3)


def test_a_missing_object_is_named(store: Any) -> None:
    with pytest.raises(FileNotFoundError, match=r"missing\.nimble"):
        nb.open("missing.nimble", filesystem=store)


def test_a_forbidden_object_is_named(server: Server, store: Any) -> None:
    server.faults.forbid = True
    with pytest.raises(PermissionError, match=r"closed\.nimble"):
        nb.open("closed.nimble", filesystem=store)


def test_an_empty_object_is_no_file(server: Server) -> None:
    import obstore

    store = server.obstore()
    obstore.put(store, "empty.nimble", b"")
    with pytest.raises(nb.CorruptFileError, match="0 bytes"):
        nb.open("empty.nimble", filesystem=store)


def test_a_replaced_object_is_an_error_and_never_a_mixture(server: Server, data: pa.Table) -> None:
    store = server.obstore()
    put(store, "replaced.nimble", data)
    with nb.open("replaced.nimble", filesystem=store) as file:
        before = file.get(3)
        put(store, "replaced.nimble", table(seed=2))
        with pytest.raises(nb.StaleFileError, match=r"replaced\.nimble: replaced since"):
            file.get(3 * 150_000)
        assert file.get(3) == before, "what was read before stays right"
    with nb.open("replaced.nimble", filesystem=store) as file:
        assert file.get(3) != before


def test_pyarrows_files_are_looked_at_again(
    server: Server, data: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nimblepy.io.arrow_object.LOOK_SECONDS", 0.0)
    store = server.arrow()
    put(store, "looked.nimble", data)
    with nb.open("looked.nimble", filesystem=store) as file:
        put(store, "looked.nimble", table(ROWS // 2))
        with pytest.raises(nb.StaleFileError, match=r"looked\.nimble: replaced since"):
            file.get(3)


def test_an_abandoned_write_leaves_nothing(server: Server, store: Any, data: pa.Table) -> None:
    big = table(1_500_000)  # more than one part of an upload

    def fail() -> None:
        with nb.Writer("left.nimble", data.schema, cluster_by="id", filesystem=store) as writer:
            writer.write(big)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    names = [m["path"] for page in server.obstore().list() for m in page]
    assert not [name for name in names if "left" in name]


def test_a_refused_write_is_told(server: Server, data: pa.Table) -> None:
    server.faults.forbid = True
    with pytest.raises(PermissionError, match=r"refused\.nimble"):
        put(server.obstore(), "refused.nimble", data)


def test_threads_share_a_remote_file(server: Server, data: pa.Table) -> None:
    store = server.obstore()
    put(store, "threads.nimble", data)
    expected = data["b"].to_pylist()
    with (
        nb.open("threads.nimble", filesystem=store, cache_bytes=1 << 16) as file,
        concurrent.futures.ThreadPoolExecutor(8) as pool,
    ):
        rows = np.random.default_rng(3).integers(0, ROWS, 200).tolist()
        found = pool.map(lambda row: file.get(3 * row, columns=["b"]), rows)
        assert [row["b"] for row in found] == [expected[row] for row in rows]


def test_clients_that_try_again_themselves_are_not_made_to(store: Any, data: pa.Table) -> None:
    from fsspec.implementations.memory import MemoryFileSystem

    from nimblepy.io.location import locate

    put(store, "once.nimble", data.slice(0, 10))
    assert locate("once.nimble", store).open().retries is None
    memory = MemoryFileSystem()
    put(memory, "/once.nimble", data.slice(0, 10))
    assert locate("/once.nimble", memory).open().retries is not None


def test_messages_name_the_uri(
    server: Server, data: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The message named "nope.nimble", and of a bucket that is not there it had the store's XML.
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    for name, value in KEYS.items():
        monkeypatch.setenv(f"AWS_{name.upper()}", value)
    with pytest.raises(FileNotFoundError, match=f"^s3://{BUCKET}/a/nope.nimble: no such object"):
        nb.open(f"s3://{BUCKET}/a/nope.nimble")
    with pytest.raises(OSError, match=r"^s3://no-such-bucket/x\.nimble: there is no such bucket$"):
        nb.write(data, "s3://no-such-bucket/x.nimble")
    with pytest.raises(OSError, match=r"s3://no-such-bucket/x\.nimble") as caught:
        nb.open("s3://no-such-bucket/x.nimble")
    assert "<?xml" not in str(caught.value)


def test_the_server_compares_and_writes_in_one_step(server: Server) -> None:
    """Other tests count on it: commits of several processes meet in one object."""
    import obstore
    from obstore.exceptions import PreconditionError

    obstore.put(server.obstore(), "counter", b"0")

    def count_up(writer: int) -> int:
        store, written = server.obstore(), 0
        for turn in range(30):
            now = obstore.get(store, "counter")
            value = int(bytes(now.bytes()).split()[0]) + 1
            mode: Any = {"e_tag": now.meta["e_tag"]}
            data = f"{value} {writer} {turn}".encode()  # each put differs, so each has its own tag
            with contextlib.suppress(PreconditionError):
                obstore.put(store, "counter", data, mode=mode, use_multipart=False)
                written += 1
        return written

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            written = sum(pool.map(count_up, range(4)))
    finally:
        sys.setswitchinterval(interval)
    value = bytes(obstore.get(server.obstore(), "counter").bytes()).split()[0]
    assert int(value) == written
