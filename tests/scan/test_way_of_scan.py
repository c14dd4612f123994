"""The way of a filtered scan to the core: few functions, and no module twice."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from call_paths import path_to_core

import nimblepy as nb

pytestmark = pytest.mark.cost
ROWS = pa.table({"k": range(1000), "v": range(1000)})


@pytest.mark.parametrize("filter", ["k > 5 AND v < 50", "v < 50", "k IN (1, 7)"])
def test_the_way_of_a_scan_to_the_core_is_short(tmp_path: Path, filter: str) -> None:
    nb.write(ROWS, tmp_path / "a.nimble", cluster_by=["k"])
    with nb.open(tmp_path / "a.nimble") as file:
        expected = file.scan(filter=filter).to_table()  # parses the filter
        path = path_to_core(lambda: file.scan(filter=filter).to_table())
        assert path.reached_core
        assert len(path.functions) <= 20, path.functions
        assert path.reentered == []
        assert file.scan(filter=filter).to_table() == expected
