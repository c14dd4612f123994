"""Building a hash index stays within its memory budget, however many keys there are."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.indexes.memory import peak_bytes

pytestmark = pytest.mark.cost


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
    assert with_index - without > budget // 2, "the measurement sees nothing"
    # A stripe's keys, a partition and a buffer of the filter come on top.
    assert with_index - without < budget + (16 << 20)
