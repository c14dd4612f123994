"""Sorting stays within its budget and a constant, however many rows there are."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.cost

# In a process of its own: what a process once held, its high-water mark keeps.
PROGRAM = """
import sys
import numpy as np, pyarrow as pa
import nimblepy as nb

def high_water():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))

path, rows, row_bytes, budget = sys.argv[1], *map(int, sys.argv[2:])
random = np.random.default_rng(1)
batch = max(1, min(1 << 15, (1 << 20) // row_bytes))
schema = pa.schema({"k": pa.int64(), "t": pa.binary(), "x": pa.float64()})

def piece():
    keys = random.integers(0, 1 << 60, batch)
    texts = pa.array([random.bytes(row_bytes) for _ in range(batch)])
    return pa.record_batch([keys, texts, random.random(batch)], schema=schema)

same = piece()
options = nb.WriteOptions(sort_memory_bytes=budget)
before = high_water()
with nb.Writer(path, schema, cluster_by="k", options=options) as writer:
    for _ in range(rows // batch):
        writer.write(piece() if row_bytes > 1000 else same.set_column(
            0, "k", pa.array(random.integers(0, 1 << 60, batch))))
grown = high_water() - before
with nb.open(path, verify="full") as file:
    assert file.num_rows == rows // batch * batch
print(grown)
"""


def growth(path: str, rows: int, row_bytes: int, budget: int) -> int:
    command = [sys.executable, "-c", PROGRAM, path, str(rows), str(row_bytes), str(budget)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.slow
@pytest.mark.no_sanitizer
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_sorting_grows_by_its_budget_and_a_constant(path: str) -> None:
    budget = 32 << 20
    # Besides: a stripe and its encoded form, a group's keys, buffers of files.
    assert growth(path, 1_500_000, 20, budget) < budget + (64 << 20)


@pytest.mark.no_sanitizer
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_sorting_long_rows_grows_no_more_than_sorting_short_ones(path: str) -> None:
    # A fixed number of rows per run and per stripe held all 100 MB, several times.
    assert growth(path, 1_000, 100_000, 4 << 20) < 56 << 20
