"""Building a hash index stays within its memory budget, however many keys there are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import resource, sys
import numpy as np, pyarrow as pa, nimblepy as nb

path, rows, budget = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
options = nb.WriteOptions(
    compression="fast", index_memory_bytes=max(budget, 1 << 20), statistics=False, threads=1
)
indexes = [nb.HashIndex("k")] if budget else []
schema = pa.schema([("k", pa.int64())])
with nb.Writer(path, schema, indexes=indexes, options=options) as writer:
    for begin in range(0, rows, 1 << 17):
        keys = np.arange(begin, min(rows, begin + (1 << 17)), dtype=np.uint64)
        keys *= np.uint64(0x9E3779B97F4A7C15)
        writer.write(pa.record_batch([pa.array(keys.view(np.int64))], schema=schema))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak_bytes(path: Path, rows: int, budget: int) -> int:
    out = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path), str(rows), str(budget)],
        capture_output=True,
        text=True,
        check=True,
    )
    return int(out.stdout) * 1024


@pytest.mark.parametrize(
    ("rows", "budget"),
    [
        (2_000_000, 8 << 20),
        pytest.param(50_000_000, 64 << 20, marks=pytest.mark.slow),
    ],
)
def test_a_hash_index_is_built_within_its_budget(tmp_path: Path, rows: int, budget: int) -> None:
    path = tmp_path / "a.nimble"
    without = peak_bytes(path, rows, 0)
    with_index = peak_bytes(path, rows, budget)
    # Pairs of hash and row alone are 16 bytes a key: several times the budget.
    assert rows * 16 > 3 * budget
    # A stripe's keys, a partition and a buffer of the filter come on top.
    assert with_index - without < budget + (16 << 20)
