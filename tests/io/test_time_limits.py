"""Time limits of reads: a store that hangs, and one that fails until the time is over."""

from __future__ import annotations

import pickle
import random
import time
from pathlib import Path

import pyarrow as pa
import pytest
from bench.s3_server import BUCKET, KEYS, Server
from fsspec.implementations.local import LocalFileSystem

import nimblepy as nb
from nimblepy.io import time_limit
from nimblepy.io.retries import Retries

VALUES = random.Random(1).choices(range(1 << 40), k=100_000)
ROWS = pa.table({"k": range(100_000), "v": VALUES})


class SlowFiles(LocalFileSystem):  # type: ignore[misc]
    """A local file system whose reads can hang."""

    protocol = "slow"
    cachable = False
    seconds = 0.0

    def open(self, *arguments: object, **keywords: object) -> object:
        time.sleep(self.seconds)
        return super().open(*arguments, **keywords)

    def info(self, *arguments: object, **keywords: object) -> object:
        time.sleep(self.seconds)
        return super().info(*arguments, **keywords)


@pytest.fixture
def no_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_limit, "_limits", {})


def test_a_file_system_that_hangs(tmp_path: Path) -> None:
    path = str(tmp_path / "t.nimble")
    nb.write(ROWS, path, cluster_by="k")
    slow = SlowFiles()
    with nb.open(path, filesystem=slow, timeout=60) as file:
        assert file.get(7) == {"k": 7, "v": VALUES[7]}
    slow.seconds = 3
    start = time.monotonic()
    with pytest.raises(TimeoutError, match=r"t\.nimble: no answer within 0\.05 s \(1 attempt\)"):
        nb.open(path, filesystem=slow, timeout=0.05)
    with pytest.raises(TimeoutError, match="no answer within"):
        nb.open_dataset(str(tmp_path), filesystem=slow, timeout=0.05)
    assert time.monotonic() - start < 3


@pytest.mark.parametrize("timeout", [0, -1, True, "1s", float("nan"), float("inf"), 1e300])
def test_a_limit_is_a_positive_number(timeout: object, tmp_path: Path) -> None:
    for call in (nb.open, nb.open_dataset, nb.connect):
        with pytest.raises(nb.InvalidArgumentError, match="timeout: expected seconds above 0"):
            call(tmp_path, timeout=timeout)  # type: ignore[operator]


def test_attempts_are_counted() -> None:
    def fail() -> None:
        raise OSError("reset")

    with pytest.raises(TimeoutError, match=r"s3://b/x: no answer within 0\.1 s \(\d attempts?\)"):
        time_limit.call_within(0.1, "s3://b/x", fail, Retries(first_delay=0.05).run)
    with pytest.raises(OSError, match="tried 2 times"):
        time_limit.call_within(5, "x", fail, Retries(attempts=2, first_delay=0).run)


@pytest.mark.store
def test_a_store_that_hangs(server: Server) -> None:
    store = server.obstore()
    nb.write(ROWS, "slow.nimble", filesystem=store, cluster_by="k")
    file = nb.open("slow.nimble", filesystem=store, timeout=1)
    server.faults.delay = 2.5
    start = time.monotonic()
    with pytest.raises(TimeoutError, match=r"slow\.nimble: no answer within 1 s"):
        file.get(50_000)
    assert time.monotonic() - start < 2.5
    server.faults.delay = 0.0
    assert file.get(50_000)["k"] == 50_000  # type: ignore[index]


@pytest.mark.store
def test_attempts_of_a_store_are_counted(server: Server) -> None:
    store = server.obstore()
    nb.write(ROWS, "failing.nimble", filesystem=store, cluster_by="k")
    server.faults.fail = 1.0
    with pytest.raises(TimeoutError, match=r"within 0\.15 s \(\d attempts?\)"):
        nb.open("failing.nimble", filesystem=store, timeout=0.15)


@pytest.mark.store
@pytest.mark.usefixtures("no_limits")
def test_a_lake_has_a_limit(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyiceberg")
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    for name, value in KEYS.items():
        monkeypatch.setenv(f"AWS_{name.upper()}", value)
    lake = nb.connect(f"s3://{BUCKET}/limited", timeout=60)
    table = lake.create_table("a.b", ROWS, cluster_by="k")
    assert pickle.loads(pickle.dumps(lake)).timeout == 60
    time_limit.limit_reads_below(table.location, 0.1)
    server.faults.delay = 0.5
    with pytest.raises(TimeoutError, match="no answer within"):
        table.get(50_000)
    with pytest.raises(TimeoutError, match="limited/"):
        nb.connect(f"s3://{BUCKET}/limited", timeout=0.1)
    server.faults.delay = 0.0
    time_limit.limit_reads_below(table.location, 60)
    assert table.get(50_000)["k"] == 50_000  # type: ignore[index]
