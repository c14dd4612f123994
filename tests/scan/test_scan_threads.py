"""Scans that are worth threads give what one thread gives; those that are not start none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nimblepy as nb

pytestmark = pytest.mark.model

ROWS = 300_000


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pa.Table]:
    generator = np.random.default_rng(3)
    table = pa.table(
        {
            "flag": generator.random(ROWS) < 0.4,
            "plain": generator.random(ROWS).view(np.int64),
            "text": [f"{v:x} of {v % 977}" for v in generator.integers(0, 1 << 40, ROWS)],
            "few": pa.array(generator.integers(0, 9, ROWS), mask=generator.random(ROWS) < 0.1),
        }
    )
    path = tmp_path_factory.mktemp("threads") / "t.nimble"
    nb.write(table, path, options=nb.WriteOptions(stripe_rows=50_000, group_rows=100_000))
    return path, table


def _threads() -> int:
    return len(os.listdir("/proc/self/task"))


@pytest.mark.parametrize(("columns", "starts"), [(["flag", "plain"], False), (["text"], True)])
def test_threads_are_started_for_what_costs_more_than_they_do(
    written: tuple[Path, pa.Table], columns: list[str], starts: bool
) -> None:
    with nb.open(written[0]) as file:
        before = _threads()
        reader = file.scan(columns, batch_rows=1_000, threads=3).to_reader()
        reader.read_next_batch()
        assert (_threads() > before) == starts  # they wait for room while nothing is taken
        assert reader.read_all().num_rows == ROWS - 1_000


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("batch_rows", [777, 65_536, ROWS])
def test_scans_are_the_same_with_threads(
    written: tuple[Path, pa.Table], threads: int, batch_rows: int
) -> None:
    path, table = written
    how: dict[str, Any] = {"threads": threads, "batch_rows": batch_rows}
    with nb.open(path) as file:
        assert file.scan(**how).to_table().equals(table)
        few = "few = 3 AND text LIKE '%7'"
        passing = file.scan(filter=few, **how)
        assert passing.to_table().equals(file.scan(filter=few, threads=1).to_table())
        assert passing.count() == passing.to_table().num_rows > 0
        for taken in (1, 3):  # the rest is not wanted
            reader = file.scan(**how).to_reader()
            for _ in range(taken):
                next(reader, None)
            del reader
