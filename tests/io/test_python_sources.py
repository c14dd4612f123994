"""Files read through a caller's own Python objects: their exceptions come back as themselves, and
no method waits for another thread's read with the GIL held.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import nimblepy as nb

pytestmark = pytest.mark.sanitizer

N = 5_000


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("sources") / "t.nimble")
    table = pa.table(
        {
            "k": pa.array(range(N), pa.int64()),
            "s": [f"text {i % 100}" for i in range(N)],
            "d": pa.array([f"of {i % 7}" for i in range(N)]).dictionary_encode(),
            "l": [[i] for i in range(N)],
        }
    )
    options = nb.WriteOptions(stripe_rows=500, group_rows=1_000, key_chunk_rows=50)
    indexes = [nb.HashIndex("s"), nb.SortedIndex("s")]
    nb.write(table, path, cluster_by="k", presorted=True, indexes=indexes, options=options)
    return path


class OwnError(Exception):
    """Of the caller's: none of nimblepy's or Arrow's errors is one."""


class Failing(io.FileIO):
    """A source that raises one exception object once it is told to."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.raises: BaseException | None = None

    def read_at(self, size: int, offset: int) -> bytes:
        if self.raises is not None:
            raise self.raises
        return os.pread(self.fileno(), size, offset)


PROBES = pa.table({"k": [1, 2, N - 1]})
READS: dict[str, Callable[[Any], Any]] = {
    "get": lambda f: f.get(N // 2),
    "get by hash index": lambda f: f.get("text 7", on="s"),
    "lookup": lambda f: f.lookup([1, N - 1]),
    "contains": lambda f: f.contains([1, N - 1]),
    "count": lambda f: f.count(["text 7"], on="s"),
    "row_ranges": lambda f: f.row_ranges([1, N - 1]),
    "range": lambda f: f.range(10, N - 10),
    "short range": lambda f: f.range(10, 20),
    "reverse range": lambda f: f.range(10, 20, reverse=True),
    "range by sorted index": lambda f: f.range("text 5", "text 7", on="s"),
    "prefix": lambda f: f.prefix(7),
    "take": lambda f: f.take([1, N - 1]),
    "to_table": lambda f: f.to_table(),
    "to_pandas": lambda f: f.to_pandas(),
    "dictionary": lambda f: f.to_table(["d"]),
    "filter": lambda f: f.to_table(filter="d = 'of 3'"),
    "filter of pyarrow's": lambda f: f.to_table(filter="length(d) = 4"),
    "scan to_table": lambda f: f.scan(batch_rows=100).to_table(),
    "scan to_reader": lambda f: f.scan(batch_rows=100).to_reader().read_all(),
    "scan to_batches": lambda f: list(f.scan(batch_rows=100).to_batches()),
    "scan count": lambda f: f.scan(filter="s = 'text 8' OR d = 'of 3'").count(),
    "scan with threads": lambda f: f.scan(batch_rows=100, threads=4).to_table(),
    "index_join": lambda f: nb.index_join(PROBES, f, on="k"),
    "streamed index_join": lambda f: nb.index_join(PROBES.to_reader(), f, on="k").read_all(),
    "layout": lambda f: f.layout(),
    "explain": lambda f: f.explain(row_range=(0, N)),
    "verify": lambda f: f.verify(),
}


@pytest.mark.parametrize("error", [OwnError("no more"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_exception_of_a_source_is_raised_as_itself(
    written: str, read: Callable[[Any], Any], error: BaseException
) -> None:
    # scans left it in the thread and raised SystemError; other methods raised it
    with Failing(written) as source:
        file = nb.open(source, cache_bytes=0)
        source.raises = error
        with pytest.raises(type(error)) as raised:
            read(file)
        assert raised.value is error
        assert raised.traceback[-1].name == "read_at"
        source.raises = None
        read(file)  # nothing of it is left


def test_file_opened_from_a_failing_source_raises_its_exception(written: str) -> None:
    with Failing(written) as source:
        source.raises = OwnError("at once")
        with pytest.raises(OwnError) as raised:
            nb.open(source)
        assert raised.value is source.raises


WAITS = """
import io, os, sys, threading
import nimblepy as nb

class Slow(io.FileIO):
    waits = False
    reading, go_on = threading.Event(), threading.Event()

    def read_at(self, size, offset):
        if self.waits:
            self.reading.set()
            self.go_on.wait()
        return os.pread(self.fileno(), size, offset)

source = Slow(sys.argv[1])
file = nb.open(source, cache_bytes=1 << 20)
source.waits = True
ask = {
    "layout": lambda: file.layout(),
    "explain": lambda: file.explain(row_range=(0, 5000)),
    "memory": lambda: file._file.handle.core.memory_bytes,
}[sys.argv[2]]
reader = threading.Thread(target=lambda: file.lookup([1, 2, 3]))
reader.start()
source.reading.wait()  # it holds a lock of the file
asking = threading.Event()
asker = threading.Thread(target=lambda: (asking.set(), ask()))
asker.start()
asking.wait()
asker.join(0.2)
source.go_on.set()
reader.join()
asker.join()
"""


@pytest.mark.parametrize("method", ["layout", "explain", "memory"])
def test_method_that_waits_for_a_read_lets_it_go_on(
    written: str, method: str, tmp_path: Path
) -> None:
    # both waited for ever: one held the lock and waited for the GIL, the other held the GIL
    script = tmp_path / "waits.py"
    script.write_text(WAITS)
    subprocess.run([sys.executable, script, written, method], check=True, timeout=60)
