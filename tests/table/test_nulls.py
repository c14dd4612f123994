"""Nulls pass no test but IS NULL, whatever the statistics of a file prove of its other values."""

from __future__ import annotations

import pyarrow as pa
import pytest

import nimblepy as nb

FILTERS = [
    "x != 5",
    "NOT (x = 5)",
    "x NOT IN (5, 6)",
    "x != 5 OR x < 0",
    "x != 5 AND y = 1",
    "x > 5",
    "x IS NOT NULL",
]


@pytest.mark.parametrize("values", [[None, 10], [None, None], [10, 10], [None, 5], [5, 10]])
@pytest.mark.parametrize("filter", FILTERS)
def test_deletes_take_what_scans_give(
    lake: nb.Catalog, filter: str, values: list[int | None]
) -> None:
    data = pa.table({"x": pa.array(values, pa.int64()), "y": [1] * len(values)})
    table = lake.create_table("a.b", data)
    passing = table.count_rows(filter)
    assert table.delete(filter).rows_deleted == passing
    assert table.count_rows(filter) == 0
    assert table.num_rows == len(values) - passing


def test_nulls_that_were_not_counted(lake: nb.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of another writer that has bounds and no counts may have nulls."""
    from nimblepy.table.writing.metrics import MetricsCollector

    collected = MetricsCollector.result

    def uncounted(self: MetricsCollector) -> object:
        found = collected(self)
        found.nulls.clear()
        return found

    monkeypatch.setattr(MetricsCollector, "result", uncounted)
    table = lake.create_table("a.b", pa.table({"x": pa.array([None, 10], pa.int64())}))
    assert table.delete("x > 5").rows_deleted == 1
    assert table.to_table().column("x").to_pylist() == [None]


INNER = {
    "struct": (
        pa.struct([pa.field("x", pa.int32(), False)]),
        pa.struct([("x", pa.int32())]),
        [{"x": 1}, None],
        [{"x": None}],
    ),
    "list": (
        pa.list_(pa.field("element", pa.int32(), False)),
        pa.list_(pa.int32()),
        [[1], [], None],
        [[1, None]],
    ),
    "map": (
        pa.map_(pa.string(), pa.field("value", pa.int32(), False)),
        pa.map_(pa.string(), pa.int32()),
        [[("a", 1)], None],
        [[("a", None)]],
    ),
}


@pytest.mark.parametrize("kind", INNER)
def test_nulls_inside_of_values(lake: nb.Catalog, kind: str) -> None:
    wanted, given, good, bad = INNER[kind]
    table = lake.create_table("a.b", pa.schema([("d", wanted)]))
    table.append(pa.table({"d": pa.array(good, given)}))
    assert table.to_table().column("d").to_pylist() == good
    with pytest.raises(nb.InvalidArgumentError, match=r"'d\..*does not allow"):
        table.append(pa.table({"d": pa.array(bad, given)}))
    assert table.num_rows == len(good)
